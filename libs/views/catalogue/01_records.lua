-- The views of one partition of the catalogue log, under one hash tag: KEYS[1] is "<namespace>:{<tag of p>}", `base` is the
-- key prefix of a generation (shared/generations.lua).
--   base:position                                  hash  log, offset, time (ms, running maximum of the log's), clock (us,
--                                                  of the last change), keys (offset of the last key event), poison
--   base:records:<account>:<resource>              hash  key -> packed envelope
--   base:created:<account>:<resource>:<parent key> zset  key by creation (us): the list; parent key '' for the top
--   base:updated:<account>:<resource>:<parent key> zset  key by last change (us)
--   base:sorted:<account>:<resource>:<parent key>  zset  sort key NUL key, all of score 0; where records have a sort key
--   base:numbers:<account>:<resource>              hash  parent key -> last running number given
--   base:kinds:<account>:<resource>:<key>          set   resources that have records under this one
--   base:referrers:<account>:<resource>:<key>      zset  resource NUL key of the records that refer to it firmly
--   base:doomed                                    zset  account NUL parent resource NUL resource NUL parent key of lists
--                                                  whose records were deleted with their parent, and are still to be
--                                                  removed; of a contest by the number of those with settled references
--   base:offers:<account>                          hash  resource NUL key of a part -> 1, where a record offers it
--   base:owners:<resource>                         hash  key -> account; of keys that accounts choose, one that has it
--   base:config                                    hash  contest -> offset of the last event that names it
--   base:due                                       zset  account NUL contest, by the time of its next due step (us)
--   base:keys                                      hash  key id -> packed `ApiKey` (contracts/catalogue_events.py), by the
--                                                  names of its members, without the id
--   base:descendants:<key id>                      set   ids of the keys that descend from this one
--   base:outcomes, base:outcome_times              hash  command id -> packed outcome; zset by log time (ms)
--   base:quarantine                                hash  offset -> reason
-- An envelope is {version, created, updated, number, parent resource, parent key, refs, offers, json, sort key or ''}; refs
-- and offers are flat lists resource, key, ...; JSON stays text (cjson would turn [] into {}). Numbers stay below 2^53.
-- A deleted contest becomes a record of the resource DELETED, created when it was deleted, and its children stay where they
-- are without references: no read or write finds them unless their contest is restored.
-- created and updated are the event's `at`, never ahead of the broker's clock and growing strictly: a list's cursor.

local VERSION, CREATED, UPDATED, NUMBER, PARENT_RESOURCE, PARENT, REFS, OFFERS, JSON = 1, 2, 3, 4, 5, 6, 7, 8, 9
local SORT = 10
local OK, CONFLICT, IN_USE, MISSING, EXISTS = 1, 2, 3, 4, 5
local SCHEMA = 8       -- raised with every change of the stored layout, or of the fold's result for the same log
local KEPT_MS = 24 * 3600 * 1000
local DELETED = 'deleted_contests'
local LISTED = 100   -- referrers named at most
local REMOVED = 50   -- records of a deleted one, removed by one call

local function records_of(base, account, resource) return base .. ':records:' .. account .. ':' .. resource end

local function list_of(base, order, account, resource, parent)
  return base .. ':' .. order .. ':' .. account .. ':' .. resource .. ':' .. parent
end

local function referrers_of(base, account, resource, key)
  return base .. ':referrers:' .. account .. ':' .. resource .. ':' .. key
end

local function find(base, account, resource, key)
  local packed = call('HGET', records_of(base, account, resource), key)
  return packed and unpack_one(packed) or nil
end

local function name_of(e) return e.resource .. '\0' .. e.key end

local function set_of(flat)
  local set = {}
  for i = 1, #flat, 2 do set[flat[i] .. '\0' .. flat[i + 1]] = true end
  return set
end

local function write_refs(base, e, old_refs, old_offers)
  local name, kept, offered = name_of(e), set_of(e.refs), set_of(e.offers)
  local offers = base .. ':offers:' .. e.account
  for i = 1, #old_refs, 2 do
    if not kept[old_refs[i] .. '\0' .. old_refs[i + 1]] then
      call('ZREM', referrers_of(base, e.account, old_refs[i], old_refs[i + 1]), name)
    end
  end
  for i = 1, #e.refs, 2 do call('ZADD', referrers_of(base, e.account, e.refs[i], e.refs[i + 1]), 0, name) end
  for i = 1, #old_offers, 2 do
    local part = old_offers[i] .. '\0' .. old_offers[i + 1]
    if not offered[part] then call('HDEL', offers, part) end
  end
  for part in pairs(offered) do call('HSET', offers, part, 1) end
end

local function sorted_of(base, account, resource, envelope)
  return list_of(base, 'sorted', account, resource, envelope[PARENT])
end

local function resort(base, e, old, envelope)
  if old == envelope[SORT] then return end
  local list = sorted_of(base, e.account, e.resource, envelope)
  if old ~= '' then call('ZREM', list, old .. '\0' .. e.key) end
  if envelope[SORT] ~= '' then call('ZADD', list, 0, envelope[SORT] .. '\0' .. e.key) end
end

local function write_record(base, e, envelope)
  call('HSET', records_of(base, e.account, e.resource), e.key, pack(envelope))
  call('ZADD', list_of(base, 'updated', e.account, e.resource, envelope[PARENT]), whole(envelope[UPDATED]), e.key)
end

local function contest_name(account, contest) return account .. '\0' .. contest end

local function schedule(base, name, due)
  if due then call('ZADD', base .. ':due', whole(due), name) else call('ZREM', base .. ':due', name) end
end

local function kinds_of(base, account, resource, key)
  return base .. ':kinds:' .. account .. ':' .. resource .. ':' .. key
end

-- notes the lists of a record's children for `remove_doomed`
local function doom(base, account, resource, key)
  for _, kind in ipairs(call('SMEMBERS', kinds_of(base, account, resource, key))) do
    call('ZADD', base .. ':doomed', 0, table.concat({ account, resource, kind, key }, '\0'))
  end
end

-- true unless neither a record nor an offered part exists
local function exists(base, account, resource, key)
  return call('HEXISTS', records_of(base, account, resource), key) == 1
    or call('HEXISTS', base .. ':offers:' .. account, resource .. '\0' .. key) == 1
end

-- removes a record, but nothing of its children
local function take_out(base, account, resource, key, envelope)
  local name, parent = resource .. '\0' .. key, envelope[PARENT]
  call('HDEL', records_of(base, account, resource), key)
  call('ZREM', list_of(base, 'created', account, resource, parent), key)
  call('ZREM', list_of(base, 'updated', account, resource, parent), key)
  if envelope[SORT] ~= '' then
    call('ZREM', sorted_of(base, account, resource, envelope), envelope[SORT] .. '\0' .. key)
  end
  if call('HGET', base .. ':owners:' .. resource, key) == account then call('HDEL', base .. ':owners:' .. resource, key) end
  if resource == 'contests' then schedule(base, contest_name(account, key)) end
  for i = 1, #envelope[REFS], 2 do
    call('ZREM', referrers_of(base, account, envelope[REFS][i], envelope[REFS][i + 1]), name)
  end
  for i = 1, #envelope[OFFERS], 2 do
    call('HDEL', base .. ':offers:' .. account, envelope[OFFERS][i] .. '\0' .. envelope[OFFERS][i + 1])
  end
end

-- removes a record, and notes the lists of its children for `remove_doomed`
local function remove(base, account, resource, key, envelope)
  take_out(base, account, resource, key, envelope)
  local parent = resource == DELETED and 'contests' or resource
  doom(base, account, parent, key)
  local kinds = kinds_of(base, account, parent, key)
  for _, kind in ipairs(call('SMEMBERS', kinds)) do
    call('HDEL', base .. ':numbers:' .. account .. ':' .. kind, key)
  end
  call('UNLINK', kinds)
end

-- The references of a child of a contest end while that is deleted; those whose records still exist begin again with it.
local function settle_refs(base, account, kind, key, is_deleted)
  local envelope, kept = find(base, account, kind, key), {}
  local name = kind .. '\0' .. key
  for i = 1, #envelope[REFS], 2 do
    local resource, to = envelope[REFS][i], envelope[REFS][i + 1]
    local referrers = referrers_of(base, account, resource, to)
    if is_deleted then
      call('ZREM', referrers, name)
    elseif exists(base, account, resource, to) then
      call('ZADD', referrers, 0, name)
      kept[#kept + 1], kept[#kept + 2] = resource, to
    end
  end
  if is_deleted or #kept == #envelope[REFS] then return end
  envelope[REFS] = kept
  call('HSET', records_of(base, account, kind), key, pack(envelope))
end

-- Removes at most so many records that were deleted with their parent; true if there was anything to remove. No further
-- event is folded before all of them are removed. Reads check that parents exist meanwhile, so for readers all of them
-- disappear at once.
local function remove_doomed(base, most)
  local list = call('ZRANGE', base .. ':doomed', 0, 0)[1]
  if not list then return false end
  while list and most > 0 do
    local account, above, kind, parent = string.match(list, '^([^%z]*)%z([^%z]*)%z([^%z]*)%z(.*)$')
    local created = list_of(base, 'created', account, kind, parent)
    local is_deleted = above == 'contests' and call('HEXISTS', records_of(base, account, DELETED), parent) == 1
    local stays = is_deleted or call('HEXISTS', records_of(base, account, above), parent) == 1
    local first = stays and tonumber(call('ZSCORE', base .. ':doomed', list)) or 0
    local keys = call('ZRANGE', created, first, first + most - 1)
    for i = 1, #keys do
      local envelope = find(base, account, kind, keys[i])
      if stays then
        settle_refs(base, account, kind, keys[i], is_deleted)
      elseif envelope then
        remove(base, account, kind, keys[i], envelope)
      else
        call('ZREM', created, keys[i])
      end
    end
    if stays then call('ZADD', base .. ':doomed', first + #keys, list) end
    if #keys < most then call('ZREM', base .. ':doomed', list) end
    most = most - #keys - 1
    list = call('ZRANGE', base .. ':doomed', 0, 0)[1]
  end
  return true
end

local function has_doomed(base) return call('EXISTS', base .. ':doomed') == 1 end

local function hides_records(base, account)
  return has_doomed(base) or call('EXISTS', records_of(base, account, DELETED)) == 1
end

-- true unless a parent of this record is deleted
local function is_there(base, account, envelope)
  while envelope and envelope[PARENT] ~= '' do
    envelope = find(base, account, envelope[PARENT_RESOURCE], envelope[PARENT])
  end
  return envelope ~= nil
end

local function find_there(base, account, resource, key)
  local envelope = find(base, account, resource, key)
  return is_there(base, account, envelope) and envelope or nil
end
