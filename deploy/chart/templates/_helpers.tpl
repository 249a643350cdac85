{{- define "tally.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tally.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "tally.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "tally.labels" -}}
{{ include "tally.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* The metadata of an object of a part: root, part, and optionally suffix and annotations. */}}
{{- define "tally.metadata" -}}
name: {{ include "tally.fullname" .root }}-{{ .part }}{{ with .suffix }}-{{ . }}{{ end }}
namespace: {{ .root.Release.Namespace }}
labels: {{- include "tally.labels" . | nindent 2 }}
{{- with .annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The users' names by part: the Jobs are operators. */}}
{{- define "tally.user" -}}
{{ if has .part (list "gateway" "projector") }}{{ .part }}{{ else }}operator{{ end }}
{{- end }}

{{/* Variables of a container. No password is among them: they are files. */}}
{{- define "tally.env" -}}
{{- $values := .root.Values }}
{{- $user := include "tally.user" . }}
{{- $own := dict }}
{{- if has .part (list "gateway" "projector") }}{{ $own = index $values .part "env" }}{{ end }}
{{- $kafka := index $values.kafka.users $user }}
{{- $valkey := index $values.valkey.users $user }}
{{- $env := dict
  "TALLY_NAMESPACE" $values.namespace
  "TALLY_PARTITIONS" $values.partitions
  "TALLY_KAFKA_BOOTSTRAP_SERVERS" (required "kafka.bootstrapServers is needed" $values.kafka.bootstrapServers)
  "TALLY_KAFKA_REPLICATION_FACTOR" $values.kafka.replicationFactor
  "TALLY_KAFKA_SECURITY_PROTOCOL" $values.kafka.securityProtocol
  "TALLY_PRODUCE_DEADLINE_MS" $values.kafka.produceDeadlineMs
  "TALLY_VALKEY_URL" (required "valkey.url is needed" $values.valkey.url)
}}
{{- if $kafka.secret }}
{{- $_ := set $env "TALLY_KAFKA_USERNAME" $kafka.name }}
{{- $_ := set $env "TALLY_KAFKA_PASSWORD_FILE" "/run/secrets/tally/kafka-password" }}
{{- $_ := set $env "TALLY_KAFKA_SASL_MECHANISM" $values.kafka.saslMechanism }}
{{- end }}
{{- if $values.kafka.ca.secret }}{{ $_ := set $env "TALLY_KAFKA_CA_FILE" "/run/secrets/tally/kafka-ca.crt" }}{{ end }}
{{- if $valkey.secret }}
{{- $_ := set $env "TALLY_VALKEY_USERNAME" $valkey.name }}
{{- $_ := set $env "TALLY_VALKEY_PASSWORD_FILE" "/run/secrets/tally/valkey-password" }}
{{- end }}
{{- if $values.valkey.ca.secret }}{{ $_ := set $env "TALLY_VALKEY_CA_FILE" "/run/secrets/tally/valkey-ca.crt" }}{{ end }}
{{- if $values.storage.claim }}
{{- $_ := set $env "TALLY_STORAGE_URL" "file:///objects/tally" }}
{{- else }}
{{- $_ := set $env "TALLY_STORAGE_URL" (required "storage.url or storage.claim is needed" $values.storage.url) }}
{{- end }}
{{- if eq .part "gateway" }}
{{- $_ := set $env "TALLY_PORT" "8080" }}
{{- $_ := set $env "TALLY_OPERATIONS_PORT" "9465" }}
{{- with $values.gateway.trustedProxies }}{{ $_ := set $env "TALLY_TRUSTED_PROXIES" (join "," .) }}{{ end }}
{{- with $values.gateway.publicUrl }}{{ $_ := set $env "TALLY_PUBLIC_URL" . }}{{ end }}
{{- else if eq .part "projector" }}
{{- $_ := set $env "TALLY_METRICS_PORT" "9464" }}
{{- end }}
{{- range $name, $value := mergeOverwrite $env (deepCopy $values.env) (deepCopy $own) }}
- {name: {{ $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end }}

{{/* A pod's own part of its spec: identity, restrictions and volumes, the same for every part. */}}
{{- define "tally.pod" -}}
{{- $values := .root.Values }}
{{- $user := include "tally.user" . }}
{{- $kafka := index $values.kafka.users $user }}
{{- $valkey := index $values.valkey.users $user }}
serviceAccountName: {{ include "tally.fullname" .root }}-{{ .part }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with $values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.hostAliases }}
hostAliases: {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: tmp
    emptyDir: {}
  - name: secrets
    projected:
      defaultMode: 0440
      sources:
        {{- with $kafka.secret }}
        - secret: {name: {{ . }}, items: [{key: {{ $kafka.key }}, path: kafka-password}]}
        {{- end }}
        {{- with $values.kafka.ca.secret }}
        - secret: {name: {{ . }}, items: [{key: {{ $values.kafka.ca.key }}, path: kafka-ca.crt}]}
        {{- end }}
        {{- with $valkey.secret }}
        - secret: {name: {{ . }}, items: [{key: {{ $valkey.key }}, path: valkey-password}]}
        {{- end }}
        {{- with $values.valkey.ca.secret }}
        - secret: {name: {{ . }}, items: [{key: {{ $values.valkey.ca.key }}, path: valkey-ca.crt}]}
        {{- end }}
        {{- if not (or $kafka.secret $values.kafka.ca.secret $valkey.secret $values.valkey.ca.secret) }}
        []
        {{- end }}
  {{- with $values.storage.claim }}
  - name: objects
    persistentVolumeClaim: {claimName: {{ . }}}
  {{- end }}
{{- end }}

{{/* A container's image, restrictions, variables and mounts. */}}
{{- define "tally.container" -}}
image: {{ include "tally.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env: {{- include "tally.env" . | nindent 2 }}
{{- with .root.Values.storage.credentialsSecret }}
envFrom:
  - secretRef: {name: {{ . }}}
{{- end }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: secrets, mountPath: /run/secrets/tally, readOnly: true}
  {{- if .root.Values.storage.claim }}
  - {name: objects, mountPath: /objects}
  {{- end }}
{{- end }}

{{/* The Deployment's rest that gateway and projector share: pod template with probes at `port`. */}}
{{- define "tally.template" -}}
metadata:
  labels: {{- include "tally.labels" . | nindent 4 }}
  {{- with (index .root.Values .part "podAnnotations") }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- include "tally.pod" . | nindent 2 }}
  # 5 s until no proxy sends requests any more, 10 s for requests, 10 s for votes that are being recorded
  terminationGracePeriodSeconds: 30
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "tally.selector" . | nindent 10 }}
      matchLabelKeys: [pod-template-hash]
  # Nodes by affinity: where nodes name no zone, the scheduler ignores every constraint beside that of the zone.
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels: {{- include "tally.selector" . | nindent 16 }}
  containers:
    - name: {{ .part }}
      {{- include "tally.container" . | nindent 6 }}
      args: [serve, {{ .part }}]
      resources: {{- toYaml (index .root.Values .part "resources") | nindent 8 }}
      ports: {{- toYaml .ports | nindent 8 }}
      # A process is alive as soon as it listens, and waits for its servers: only readiness depends on them.
      startupProbe:
        httpGet: {path: /livez, port: {{ .probes }}}
        periodSeconds: 1
        timeoutSeconds: 5
        failureThreshold: 120
      livenessProbe:
        httpGet: {path: /livez, port: {{ .probes }}}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 4
      readinessProbe:
        httpGet: {path: /readyz, port: {{ .probes }}}
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 1
{{- end }}
