-- The fold, with one function per event type: judge, then write. Each returns the outcome's kind, a flat list of the
-- records that the outcome names, and the resulting records, if any: {key, envelope, key, envelope, ...}.

local folds = {}

-- One write, or several in one step.
function folds.RecordsWritten(base, e, clock)
  local after, left = { own = {}, lost = {}, count = #e.writes }, {}
  for _, write in ipairs(e.writes) do
    if after.own[name_of(write)] then return CONFLICT, {} end
    after.own[name_of(write)] = true
  end
  for _, write in ipairs(e.writes) do
    local old = find(base, e.account, write.resource, write.key)
    for part in pairs(set_of(old and old[OFFERS] or {})) do after.lost[part] = true end
    if old or write.kind == 'RecordCreated' then
      for part in pairs(set_of(write.offers)) do after.own[part] = true end
    else
      after.own[name_of(write)] = nil  -- a change of an absent record leaves nothing to refer to
    end
  end
  for _, write in ipairs(e.writes) do
    local outcome, named = judges[write.kind](base, write, after)
    if outcome ~= OK then return outcome, named end
  end
  for i, write in ipairs(e.writes) do
    left[2 * i - 1], left[2 * i] = write.key, writers[write.kind](base, write, clock + i - 1)
  end
  return OK, {}, left
end

folds.RecordCreated, folds.RecordChanged = folds.RecordsWritten, folds.RecordsWritten

function folds.ContestClosing(base, e, clock)
  local old = find(base, e.account, 'contests', e.key)
  if not old then return MISSING, { 'contests', e.key } end
  if call('HGET', base .. ':config', e.key) ~= whole(e.expected) then return CONFLICT, {} end
  old[VERSION], old[UPDATED], old[JSON] = e.offset, clock, e.record
  write_record(base, e, old)
  return OK, {}, { e.key, old }
end

function folds.RecordDeleted(base, e, clock)
  local old = find_there(base, e.account, e.resource, e.key)
  if not old then return MISSING, { e.resource, e.key } end
  if e.expected >= 0 and old[VERSION] ~= e.expected then return CONFLICT, {} end
  if e.expected_parent >= 0 then
    local above = find(base, e.account, old[PARENT_RESOURCE], old[PARENT])
    if not above or above[VERSION] ~= e.expected_parent then return CONFLICT, {} end
  end
  -- no other record refers to a record's children, or to its parts (catalogue/resource_definition.py)
  local found = {}
  add_referrers(base, e.account, e.resource, e.key, { [name_of(e)] = true }, 1, found)
  if #found > 0 then return IN_USE, found end
  if e.resource ~= 'contests' then
    remove(base, e.account, e.resource, e.key, old)
    return OK, {}
  end
  take_out(base, e.account, e.resource, e.key, old)
  doom(base, e.account, e.resource, e.key)
  old[UPDATED], e.resource = clock, DELETED
  write_record(base, e, old)
  call('HSETNX', base .. ':owners:' .. DELETED, e.key, e.account)
  return OK, {}
end

function folds.ContestRestored(base, e, clock)
  local old = find(base, e.account, DELETED, e.key)
  if not old then return MISSING, { e.resource, e.key } end
  take_out(base, e.account, DELETED, e.key, old)
  old[VERSION], old[UPDATED] = e.offset, clock
  write_record(base, e, old)
  resort(base, e, '', old)
  call('ZADD', list_of(base, 'created', e.account, e.resource, ''), whole(old[CREATED]), e.key)
  call('HSETNX', base .. ':owners:' .. e.resource, e.key, e.account)
  settle_refs(base, e.account, e.resource, e.key, false)
  schedule(base, contest_name(e.account, e.key), e.due)
  doom(base, e.account, e.resource, e.key)
  return OK, {}, { e.key, old }
end

local function find_key(base, account, key)
  local packed = call('HGET', base .. ':keys', key)
  local row = packed and unpack_one(packed)
  return row and row[1] == account and row or nil
end

local function drop_key(base, key, row)
  for _, ancestor in ipairs(row[6]) do call('SREM', base .. ':descendants:' .. ancestor, key) end
  call('UNLINK', base .. ':descendants:' .. key)
  call('HDEL', base .. ':keys', key)
end

function folds.KeyIssued(base, e)
  if call('HEXISTS', base .. ':keys', e.key) == 1 then return EXISTS, {} end
  local parent = e.ancestors[#e.ancestors]
  if parent and not find_key(base, e.account, parent) then return MISSING, { 'keys', parent } end
  for _, ancestor in ipairs(e.ancestors) do call('SADD', base .. ':descendants:' .. ancestor, e.key) end
  call('HSET', base .. ':keys', e.key,
    pack({ e.account, e.sha256, e.permissions, e.at, e.rules, e.ancestors, e.command }))
  call('HSET', base .. ':position', 'keys', whole(e.offset))
  return OK, {}
end

function folds.KeyRevoked(base, e)
  local row = find_key(base, e.account, e.key)
  if not row then return MISSING, { 'keys', e.key } end
  if e.keeps_descendants ~= 1 then
    for _, descendant in ipairs(call('SMEMBERS', base .. ':descendants:' .. e.key)) do
      drop_key(base, descendant, find_key(base, e.account, descendant))
    end
  end
  drop_key(base, e.key, row)
  call('HSET', base .. ':position', 'keys', whole(e.offset))
  return OK, {}
end

local function event_of(item)
  local e = { kind = item[1], offset = item[2], time = item[3], at = item[4], account = item[5], command = item[6],
    content = item[7], contest = '', writes = {} }
  if e.kind == 'KeyIssued' then
    e.key, e.sha256, e.permissions, e.rules, e.ancestors = item[8], item[9], item[10], item[11], item[12]
  elseif e.kind == 'KeyRevoked' then
    e.key, e.keeps_descendants = item[8], item[9]
  elseif e.kind == 'RecordsWritten' then
    for i, write in ipairs(item[8]) do e.writes[i] = event_of(write) end
  else
    e.resource, e.key, e.contest, e.expected, e.expected_parent = item[8], item[9], item[10], item[11], item[12]
    e.record, e.parent_resource, e.parent, e.refs, e.offers = item[13], item[14], item[15], item[16], item[17]
    e.due, e.sort_key, e.writes[1] = item[18], item[19], e
  end
  return e
end

-- Deletes expired outcomes lazily: `fold` ignores them already.
local function prune(base, now, most)
  local old = call('ZRANGE', base .. ':outcome_times', '-inf', whole(now - KEPT_MS), 'BYSCORE', 'LIMIT', 0, most)
  if #old == 0 then return end
  call('HDEL', base .. ':outcomes', unpack(old))
  call('ZREM', base .. ':outcome_times', unpack(old))
end

-- the stored outcome of a command: kind, offset, content, named records, and for each resulting record key, version,
-- created, updated, number, parent, json ('' without an idempotency key)
local function remember(base, e, now, kind, named, left)
  local outcome = { kind, e.offset, e.content, named }
  for i = 1, #left, 2 do
    local envelope = left[i + 1]
    for _, value in ipairs({ left[i], envelope[VERSION], envelope[CREATED], envelope[UPDATED], envelope[NUMBER],
      envelope[PARENT], e.content ~= '' and envelope[JSON] or '' }) do outcome[#outcome + 1] = value end
  end
  call('HSET', base .. ':outcomes', e.command, pack(outcome))
  call('ZADD', base .. ':outcome_times', whole(now), e.command)
end

-- Folds items; the position moves after each event's writes.
local function fold(base, items, range)
  local stored = call('HMGET', base .. ':position', 'time', 'clock')
  local time, clock = tonumber(stored[1] or 0), tonumber(stored[2] or 0)
  for i = 1, #items do
    local item = items[i]
    local kind = item[2] < range.from and 'folded' or item[1]
    if kind ~= 'folded' then
      time = math.max(time, item[3])
      while remove_doomed(base, REMOVED) do end  -- none is left after a DELETE that ends its batch
    end
    if kind == 'poison' then
      call('HSET', base .. ':quarantine', whole(item[2]), item[4])
      call('HINCRBY', base .. ':position', 'poison', 1)
    elseif folds[kind] then
      local e = event_of(item)
      local seen = call('ZSCORE', base .. ':outcome_times', e.command)
      if not seen or tonumber(seen) <= time - KEPT_MS then
        local tick = math.max(clock + 1, math.min(e.at, time * 1000 + 999))
        local outcome, named, left = folds[kind](base, e, tick)
        if outcome == OK then clock = tick + math.max(#e.writes, 1) - 1 end
        remember(base, e, time, outcome, named, left or {})
      end
      for _, about in ipairs(e.writes) do
        if about.contest ~= '' then call('HSET', base .. ':config', about.contest, whole(e.offset)) end
      end
    end
    if kind ~= 'folded' then
      call('HSET', base .. ':position', 'offset', whole(item[2] + 1), 'time', whole(time), 'clock', whole(clock))
    end
  end
  prune(base, time, 2 * #items)
end

local generations = generations_of('catalogue', SCHEMA, fold, {
  is_unfinished = has_doomed,
  finish = function(views) return remove_doomed(views, REMOVED) end,
})
