-- Look-ups of votes by their ids, many in one call; without any it is the cheapest way to watch a partition.

-- {state, ...}: 0 unknown; 1 pending, then accepted_at; 2 folded, then status, accepted_at, offset, source, content hash,
-- remaining for participant and contest, next_free_vote_at, choices as participant, votes, ..., and 1 where a removal
-- waits for a reopening.
local function look_up(base, views, contest, voter, digest)
  local standing = unpack_voter(call('HGET', views .. ':voters:' .. contest, voter))
  local record = find_record(views, contest, voter, standing, digest)
  if record then
    local _, content, at, where, index, count, flags, rem_p, rem_c, next_at = struct.unpack(ROW, record)
    local choices = {}
    if index > 0 then
      choices = { names_of(views, contest, { index })[index], count }
    elseif flags >= DETAILED then
      choices = with_choices(choices, views, contest, voter .. digest)
    end
    local waits = call('HEXISTS', views .. ':waiting:' .. contest, voter .. digest)
    return { 2, status_of(flags), at, where, flags % 2, content, rem_p, rem_c, next_at, choices, waits }
  end
  local field = pending_field(contest, voter)
  local its = find_pending(open_pending(base, { field }).list(field), digest)
  return its and { 1, its[P_AT] } or { 0 }
end

-- ARGV[1]: packed list of {contest, voter, digest}. {log, offset, open, n, and a list for each as of look_up}.
read('votes_lookup', function(keys, args)
  local base = keys[1]
  local views, gate, votes = view(base), load_gate(base), unpack_one(args[1])
  local log, offset = position(views)
  local reply = { log, offset, gate.open and 1 or 0, gate.n }
  for i = 1, #votes do reply[i + 4] = look_up(base, views, votes[i][1], votes[i][2], votes[i][3]) end
  return pack(reply)
end)
