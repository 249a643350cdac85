// The story of test_official_clients.py in node: `story.js URL KEY CONTEST PARTICIPANT OTHER`.

import assert from "node:assert/strict";

import { Client } from "../../../libs/client/tallykeeper.js";

const [url, key, contest, one, other] = process.argv.slice(2);
const client = new Client(url, { key });
const cast = await client.vote(contest, {
  participant_key: one,
  voter_id: "ben",
  vote_id: "v",
  ip: "192.0.2.8",
});
assert.equal(cast.kind, "accepted");
const again = await client.vote(contest, { participant_key: one, voter_id: "ben", vote_id: "v" });
assert.equal(again.answer.receipt, cast.answer.receipt);
const refused = await client.vote(contest, { participant_key: one, voter_id: "ben" });
assert.deepEqual(
  [refused.kind, refused.problem.code, refused.problem.data.limit],
  ["refused", "participant_limit_reached", 1],
);
const { participants } = await client.counts(contest, { minPosition: [cast.position] });
assert.equal(participants[one].count, 1);
const batch = await client.voteBatch(contest, [
  { participant_key: other, voter_id: "ben" },
  { participant_key: "nobody", voter_id: "ben" },
]);
assert.deepEqual(
  batch.map(({ kind }) => kind),
  ["accepted", "refused"],
);
for await (const { phase, results } of client.follow(contest)) {
  if (results?.count !== 2) continue;
  assert.equal(phase.phase, "running");
  break;
}
for await (const { results } of new Client(url).follow(contest)) if (results?.count === 2) break;
assert.equal((await client.allowance(contest, { voter_id: "ben" })).sources[0].contest.used, 2);
assert.equal((await client.recordedVote(contest, "v", { voter_id: "ben" })).counts, true);
await client.remove(contest, "v", { voter_id: "ben" });
assert.ok(Math.abs(client.serviceTime() - Date.now()) < 60_000);
assert.deepEqual(await client.pending(), []);
console.log("told");
