-- Look-ups of votes by their ids, many in one call; without any it is the cheapest way to watch a partition.

local lookups = {}  -- functions: a chunk has 200 locals at most

-- {state, ...}: 0 unknown; 1 pending, then accepted_at; 2 folded, then status, accepted_at, offset, source, content hash,
-- remaining for participant and contest, next_free_vote_at, choices as participant, votes, ..., and 1 where a removal
-- waits for a reopening.
function lookups.folded(views, contest, voter, record)
  local flags, digest, content, at, where, index, count, rem_p, rem_c, next_at = vote_records.unpack(record)
  local choices = {}
  if index > 0 then
    choices = { names_by_index(views, contest)[index], count }
  elseif flags >= DETAILED then
    choices = with_choices(choices, views, contest, voter .. digest)
  end
  local waits = call('HEXISTS', views .. ':waiting:' .. contest, voter .. digest)
  return { 2, status_of(flags), at, where, flags % 2, content, rem_p, rem_c, next_at, choices, waits }
end

function lookups.one(base, views, contest, voter, digest)
  local standing = unpack_voter(voter, call('HGET', views .. ':voters:' .. contest, voter))
  local record = find_record(views, contest, voter, standing, digest)
  if record then return lookups.folded(views, contest, voter, record) end
  local field = pending_field(contest, voter)
  local its = find_pending(open_pending(base, { field }):list(field), digest)
  return its and { 1, its[P_AT] } or { 0 }
end

-- ARGV[1]: packed list of {contest, voter, digest}. {log, offset, open, n, and a list for each as of lookups.one}.
library.register_read('votes_lookup', function(keys, args)
  local base = keys[1]
  local views, gate, votes = view(base), load_gate(base), unpack_one(args[1])
  local log, offset = position(views)
  local reply = { log, offset, gate.open and 1 or 0, gate.n }
  for i = 1, #votes do reply[i + 4] = lookups.one(base, views, votes[i][1], votes[i][2], votes[i][3]) end
  return pack(reply)
end)

-- Returns a voter's folded records, newest first, from the one after the digest `after` ('' to begin): those stored with
-- the voter, then the spilled ones, each of which names the one before it.
function lookups.newest(views, contest, voter, after, most)
  local standing = unpack_voter(voter, call('HGET', views .. ':voters:' .. contest, voter))
  local records, before, found = standing.records, standing.spilled, {}
  local function read(digest)
    local spilled = call('HGET', views .. ':spill:' .. contest, voter .. digest)
    return spilled and vote_records.restored(spilled, digest)
  end
  local at = after ~= '' and vote_records.index(records, after)
  if after == '' or at then
    local starts = vote_records.starts(records)
    for i = #starts, 1, -1 do
      if #found == most then return found end
      if not at or starts[i] < at then found[#found + 1] = vote_records.at(records, starts[i]) end
    end
  else
    local value = read(after)
    before = value and string.sub(value, vote_records.size(value, 1) + 1) or ''
  end
  while #found < most and before ~= '' do
    local value = read(before)
    if not value then return found end
    found[#found + 1], before = value, string.sub(value, vote_records.size(value, 1) + 1)
  end
  return found
end

-- ARGV: contest, voter, digest of the last vote of the page before ('' to begin), most. {log, offset, open, n, and for each
-- vote, newest first, its digest and what lookups.one says}.
library.register_read('votes_of_voter', function(keys, args)
  local base = keys[1]
  local views, gate = view(base), load_gate(base)
  local log, offset = position(views)
  local reply = { log, offset, gate.open and 1 or 0, gate.n }
  for _, record in ipairs(lookups.newest(views, args[1], args[2], args[3], tonumber(args[4]))) do
    reply[#reply + 1] = vote_records.digest(record)
    reply[#reply + 1] = lookups.folded(views, args[1], args[2], record)
  end
  return pack(reply)
end)
