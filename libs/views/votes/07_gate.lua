-- The gate: while it is open, acknowledged reservations are sure to count. A fence ends doubt and opens it again.

do
  local function confirm_in(base, run, incarnation)
    local gate = load_gate(base, run)
    if not gate.open or gate.n ~= tonumber(incarnation) then return 0 end
    call('HINCRBY', base .. ':gate', 'confirmed', 1)
    return 1
  end

  -- KEYS: partitions, several only where one server has them all; ARGV: of each an incarnation. 1 for each whose gate is
  -- still open under it for this very server, else 0, or its error. A write on purpose: a primary that was cut off from its
  -- replicas cannot answer it.
  library.register('votes_confirm', function(keys, args) return library.each_key(keys, args, confirm_in) end)
end

do
  local function raise_one(base, run, contest, version, incarnation, place, reached)
    local in_force = tonumber(call('HGET', base .. ':config', contest) or UNLIMITED)
    local floor = tonumber(call('HGET', base .. ':floors', contest) or UNLIMITED)
    if incarnation then
      local gate = load_gate(base, run)
      if not gate.open or gate.n ~= incarnation or version < floor then return 0 end
      if reached < tonumber(call('HGET', base .. ':needs', place) or 0) then return -1 end
    elseif in_force == UNLIMITED then
      if version > floor then call('HSET', base .. ':floors', contest, whole(version)) end
      return 1
    end
    if version > in_force then call('HSET', base .. ':config', contest, whole(version)) end
    return 1
  end

  local function raise_in(base, run, packed)
    local least = 1
    for _, raise in ipairs(unpack_one(packed)) do least = math.min(least, raise_one(base, run, unpack(raise))) end
    return least
  end

  -- KEYS: partitions, several only where one server has them all. ARGV: of each a packed list of {contest, version; and of a
  -- worker the incarnation it loaded under, the contest's catalogue partition, the offset that its view had reached}. Raises
  -- the configuration versions in force: by partition the least of 1 done, 0 moot, -1 read too early, or its error.
  -- A worker's version is accepted only while the gate is open under the same incarnation, and if the catalogue view had
  -- reached the end that its log had when the gate was closed: that includes any version in force here before a data loss.
  -- If none is in force, the projector's version is only a floor: a delayed projector may send an old version after the
  -- newer one was lost here, and that must not admit votes.
  library.register('votes_raise', function(keys, args) return library.each_key(keys, args, raise_in) end)
end

-- ARGV: the incarnation under which the caller was in doubt, '1' to reset the clock to the server's once the fence is
-- folded and nothing is pending (its order identifies pending votes). Shuts the gate and returns the fence to append as
-- {incarnation, the fence that it follows, run}, the same again until any fence was folded; {'0'} when the gate has
-- been opened under another incarnation since.
library.register('votes_shut', function(keys, args)
  local base = keys[1]
  local gate = load_gate(base)
  if gate.open and gate.n ~= tonumber(args[1]) then return { '0' } end
  local folded = tonumber(call('GET', view(base) .. ':fence') or 0)
  local asked = gate.asked
  if gate.asked_run ~= gate.run or gate.asked_after ~= folded then
    asked = math.max(gate.n + 1, folded + 1, asked + 1, math.floor(microseconds() / 1000))
    -- only with a new number: versions that the projector put in force while a fence is on its way must stay
    call('UNLINK', base .. ':config', base .. ':floors', base .. ':needs')
  end
  local incarnation, after = string.format('%.0f', asked), string.format('%.0f', folded)
  if args[2] == '1' then call('HSET', base .. ':gate', 'forget_clock', 1) end
  call('HSET', base .. ':gate', 'state', 'shut', 'asked', incarnation, 'asked_after', after, 'asked_run', gate.run)
  library.note_change('gates', base)
  return { incarnation, after, gate.run }
end)

-- ARGV: incarnation of the requested fence, catalogue partition, offset, ... Stores, before that fence is appended, the
-- ends of the catalogue's log after the gate was shut; the highest reported offset of a partition holds.
library.register('votes_need', function(keys, args)
  local base = keys[1]
  if load_gate(base).asked ~= tonumber(args[1]) then return 0 end
  for i = 2, #args, 2 do
    local needed = tonumber(call('HGET', base .. ':needs', args[i]) or 0)
    if tonumber(args[i + 1]) > needed then call('HSET', base .. ':needs', args[i], args[i + 1]) end
  end
  return 1
end)
