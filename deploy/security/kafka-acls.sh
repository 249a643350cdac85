#!/usr/bin/env bash
# Gives each part of Tallykeeper the least that it needs of Kafka. Run it once a namespace, as a user who may change ACLs:
#   NAMESPACE=tally BOOTSTRAP=kafka:9093 ADMIN=admin.properties bash kafka-acls.sh
# The users themselves are made before, for instance:
#   kafka-configs.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --alter --entity-type users \
#     --entity-name tally-ingestion --add-config 'SCRAM-SHA-512=[password=...]'
# Write access to the catalogue's topic includes issuing API keys: only the catalogue, the projector and the operator may.
set -euo pipefail
NAMESPACE=${NAMESPACE:-tally}

allow() {
  local user=$1
  shift
  kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal "User:$user" "$@"
}

VOTES=(--topic "$NAMESPACE.votes")
# the topics of `tally topics grow`: <namespace>.votes.<number>
LATER=(--resource-pattern-type prefixed --topic "$NAMESPACE.votes.")
PURCHASES=(--topic "$NAMESPACE.purchases")
CATALOGUE=(--topic "$NAMESPACE.catalogue" --topic "$NAMESPACE-test.catalogue")
ALL=("${VOTES[@]}" "${PURCHASES[@]}" "${CATALOGUE[@]}")
READ=(--operation Read --operation DescribeConfigs)

# Reading, Describe included: every part checks the topics' settings and asks how long the logs are.
for user in tally-ingestion tally-query tally-catalogue tally-dashboard tally-gateway tally-projector; do
  allow "$user" "${READ[@]}" "${ALL[@]}"
  allow "$user" "${READ[@]}" "${LATER[@]}"
done

allow tally-ingestion --operation Write "${VOTES[@]}" "${PURCHASES[@]}"
for user in tally-ingestion tally-gateway tally-projector; do
  allow "$user" --operation Write "${LATER[@]}"
done
allow tally-catalogue --operation Write "${CATALOGUE[@]}"
allow tally-gateway --operation Write "${ALL[@]}"
allow tally-projector --operation Write "${ALL[@]}"
allow tally-projector --operation Read --resource-pattern-type prefixed --group "$NAMESPACE"

# The tally command: topics are created, checked and, by an import, altered; `tally doctor` reads the brokers' settings.
allow tally-operator --operation All "${ALL[@]}"
allow tally-operator --operation All "${LATER[@]}"
allow tally-operator --operation Describe --operation DescribeConfigs --cluster
