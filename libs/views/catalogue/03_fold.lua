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
  if call('HGET', base .. ':config', e.key) ~= whole(e.expected_config) then return CONFLICT, {} end
  old[VERSION], old[UPDATED], old[JSON] = e.offset, clock, e.record
  write_record(base, e, old)
  return OK, {}, { e.key, old }
end

function folds.RecordDeleted(base, e, clock)
  local old = find_there(base, e.account, e.resource, e.key)
  if not old then return MISSING, { e.resource, e.key } end
  if e.expected_version and old[VERSION] ~= e.expected_version then return CONFLICT, {} end
  if e.expected_parent then
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
  return row and row.account == account and row or nil
end

local function drop_key(base, key, row)
  for _, above in ipairs(row.ancestors) do call('SREM', base .. ':descendants:' .. above.key_id, key) end
  call('UNLINK', base .. ':descendants:' .. key)
  call('HDEL', base .. ':keys', key)
end

function folds.KeyIssued(base, e)
  if call('HEXISTS', base .. ':keys', e.key_id) == 1 then return EXISTS, {} end
  local parent = e.ancestors[#e.ancestors]
  if parent and not find_key(base, e.account, parent.key_id) then return MISSING, { 'keys', parent.key_id } end
  for _, above in ipairs(e.ancestors) do call('SADD', base .. ':descendants:' .. above.key_id, e.key_id) end
  call('HSET', base .. ':keys', e.key_id, pack_named({ account = e.account, sha256 = e.sha256, permissions = e.permissions,
    issued = e.at, rules = e.rules, ancestors = e.ancestors, command_id = e.command_id }))
  call('HSET', base .. ':position', 'keys', whole(e.offset))
  return OK, {}
end

function folds.KeyRevoked(base, e)
  local row = find_key(base, e.account, e.key_id)
  if not row then return MISSING, { 'keys', e.key_id } end
  if not e.keeps_descendants then
    for _, descendant in ipairs(call('SMEMBERS', base .. ':descendants:' .. e.key_id)) do
      drop_key(base, descendant, find_key(base, e.account, descendant))
    end
  end
  drop_key(base, e.key_id, row)
  call('HSET', base .. ':position', 'keys', whole(e.offset))
  return OK, {}
end

-- {{resource, key}, ...} as {resource, key, ...}
local function flat(named)
  local list = {}
  for i, ref in ipairs(named or {}) do list[2 * i - 1], list[2 * i] = ref[1], ref[2] end
  return list
end

-- The event of an item, which stays as it is for the next generation: its `writes`, itself if it is only one, have what they
-- need of it.
local function event_of(item)
  local e = setmetatable({ writes = {} }, { __index = item })
  for i, write in ipairs(item.writes or (item.key and { item }) or {}) do
    local above = write.parent or { '', '' }
    e.writes[i] = setmetatable({
      kind = write.expected_version and 'RecordChanged' or 'RecordCreated', account = item.account, offset = item.offset,
      parent_resource = above[1], parent = above[2], refs = flat(write.refs), offers = flat(write.offers),
    }, { __index = write })
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
  call('HSET', base .. ':outcomes', e.command_id, pack(outcome))
  call('ZADD', base .. ':outcome_times', whole(now), e.command_id)
end

-- Folds items; the position moves after each event's writes.
local function fold(base, items, range)
  local stored = call('HMGET', base .. ':position', 'time', 'clock')
  local time, clock = tonumber(stored[1] or 0), tonumber(stored[2] or 0)
  for i = 1, #items do
    local item = items[i]
    local kind = item.offset < range.from and 'folded' or item.type
    if kind ~= 'folded' then
      time = math.max(time, item.time)
      while remove_doomed(base, REMOVED) do end  -- none is left after a DELETE that ends its batch
    end
    if kind == 'poison' then
      call('HSET', base .. ':quarantine', whole(item.offset), item.reason)
      call('HINCRBY', base .. ':position', 'poison', 1)
    elseif kind ~= 'folded' and kind ~= 'nothing' then
      local e = event_of(item)
      local seen = call('ZSCORE', base .. ':outcome_times', e.command_id)
      if not seen or tonumber(seen) <= time - KEPT_MS then
        local tick = math.max(clock + 1, math.min(e.at, time * 1000 + 999))
        local outcome, named, left = folds[kind](base, e, tick)
        if outcome == OK then clock = tick + math.max(#e.writes, 1) - 1 end
        remember(base, e, time, outcome, named, left or {})
      end
      for _, about in ipairs(e.writes) do
        if about.contest then call('HSET', base .. ':config', about.contest, whole(e.offset)) end
      end
    end
    if kind ~= 'folded' then
      call('HSET', base .. ':position', 'offset', whole(item.offset + 1), 'time', whole(time), 'clock', whole(clock))
    end
  end
  prune(base, time, 2 * #items)
end

local generations = generations_of('catalogue', SCHEMA, fold, {
  is_unfinished = has_doomed,
  finish = function(views) return remove_doomed(views, REMOVED) end,
})
