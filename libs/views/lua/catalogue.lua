#!lua name=tally_catalogue
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
--   base:doomed                                    zset  account NUL resource NUL parent key of lists whose records were
--                                                  deleted with their parent, and are still to be removed
--   base:offers:<account>                          hash  resource NUL key of a part -> 1, where a record offers it
--   base:owners:<resource>                         hash  key -> account; of keys that accounts choose, one that has it
--   base:config                                    hash  contest -> offset of the last event that names it
--   base:due                                       zset  account NUL contest, by the time of its next due step (us)
--   base:keys                                      hash  key id -> packed {account, sha256, permissions, issued, rules}
--   base:outcomes, base:outcome_times              hash  command id -> packed outcome; zset by log time (ms)
--   base:quarantine                                hash  offset -> reason
-- An envelope is {version, created, updated, number, parent resource, parent key, refs, offers, json, sort key or ''}; refs
-- and offers are flat lists resource, key, ...; JSON stays text (cjson would turn [] into {}). Numbers stay below 2^53.
-- created and updated are the event's `at`, never ahead of the broker's clock and growing strictly: a list's cursor.

local VERSION, CREATED, UPDATED, NUMBER, PARENT_RESOURCE, PARENT, REFS, OFFERS, JSON = 1, 2, 3, 4, 5, 6, 7, 8, 9
local SORT = 10
local OK, CONFLICT, IN_USE, MISSING, EXISTS = 1, 2, 3, 4, 5
local SCHEMA = 4       -- raised with every change of what is stored that the code before could not read
local KEPT_MS = 24 * 3600 * 1000
local LISTED = 100   -- referrers named at most
local REMOVED = 50   -- records of a deleted one, removed by one call
local SLICE = 4000   -- arguments of one command, below unpack's limit

local function sliced(list, width, action)
  local step = SLICE - SLICE % width
  for from = 1, #list, step do action(unpack(list, from, math.min(from + step - 1, #list))) end
end

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

-- ---------------------------------------------------------------------------------------------- judging: reads only

local function name_of(e) return e.resource .. '\0' .. e.key end

local function set_of(flat)
  local set = {}
  for i = 1, #flat, 2 do set[flat[i] .. '\0' .. flat[i + 1]] = true end
  return set
end

-- the dangling references, as a flat list: neither a record nor an offered part exists for them `after` an event's
-- writes. `own`: the written records and the parts they offer; `lost`: the parts that they offered until then
local function missing_refs(base, e, after)
  local missing = {}
  for i = 1, #e.refs, 2 do
    local resource, key = e.refs[i], e.refs[i + 1]
    local name = resource .. '\0' .. key
    if not after.own[name] and (after.lost[name] or call('HEXISTS', records_of(base, e.account, resource), key) == 0
      and call('HEXISTS', base .. ':offers:' .. e.account, name) == 0) then
      missing[#missing + 1] = resource
      missing[#missing + 1] = key
    end
  end
  return missing
end

-- adds to `found` who refers to a record or part, but for those in `except`, which are so many
local function add_referrers(base, account, resource, key, except, count, found)
  local names = call('ZRANGE', referrers_of(base, account, resource, key), 0, LISTED + count - 1)
  for i = 1, #names do
    if not except[names[i]] and #found < 2 * LISTED then
      local cut = string.find(names[i], '\0', 1, true)
      found[#found + 1] = string.sub(names[i], 1, cut - 1)
      found[#found + 1] = string.sub(names[i], cut + 1)
    end
  end
end

-- ---------------------------------------------------------------------------------------------- writing

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

-- removes a record; what belongs to it is doomed
local function remove(base, account, resource, key, envelope)
  local name, parent = resource .. '\0' .. key, envelope[PARENT]
  call('HDEL', records_of(base, account, resource), key)
  call('ZREM', list_of(base, 'created', account, resource, parent), key)
  call('ZREM', list_of(base, 'updated', account, resource, parent), key)
  if envelope[SORT] ~= '' then
    call('ZREM', sorted_of(base, account, resource, envelope), envelope[SORT] .. '\0' .. key)
  end
  if call('HGET', base .. ':owners:' .. resource, key) == account then call('HDEL', base .. ':owners:' .. resource, key) end
  local kinds = base .. ':kinds:' .. account .. ':' .. resource .. ':' .. key
  for _, kind in ipairs(call('SMEMBERS', kinds)) do
    call('HDEL', base .. ':numbers:' .. account .. ':' .. kind, key)
    call('ZADD', base .. ':doomed', 0, account .. '\0' .. kind .. '\0' .. key)
  end
  call('UNLINK', kinds)
  if resource == 'contests' then schedule(base, contest_name(account, key)) end
  for i = 1, #envelope[REFS], 2 do
    call('ZREM', referrers_of(base, account, envelope[REFS][i], envelope[REFS][i + 1]), name)
  end
  for i = 1, #envelope[OFFERS], 2 do
    call('HDEL', base .. ':offers:' .. account, envelope[OFFERS][i] .. '\0' .. envelope[OFFERS][i + 1])
  end
end

-- Removes records that were deleted with their parent, so many at most; true if there was anything to remove.
-- Their parent is gone already, and no further event is folded before they are. So they hold nothing up, and readers,
-- who look for parents meanwhile, see all of them go at once.
local function remove_doomed(base, most)
  local list = call('ZRANGE', base .. ':doomed', 0, 0)[1]
  if not list then return false end
  while list and most > 0 do
    local account, kind, parent = string.match(list, '^([^%z]*)%z([^%z]*)%z(.*)$')
    local created = list_of(base, 'created', account, kind, parent)
    local keys = call('ZRANGE', created, 0, most - 1)
    for i = 1, #keys do
      local envelope = find(base, account, kind, keys[i])
      if envelope then remove(base, account, kind, keys[i], envelope) else call('ZREM', created, keys[i]) end
    end
    if #keys < most then call('ZREM', base .. ':doomed', list) end
    most = most - #keys - 1
    list = call('ZRANGE', base .. ':doomed', 0, 0)[1]
  end
  return true
end

local function has_doomed(base) return call('EXISTS', base .. ':doomed') == 1 end

-- true unless a record above this one is gone
local function is_there(base, account, envelope)
  while envelope and envelope[PARENT] ~= '' do
    envelope = find(base, account, envelope[PARENT_RESOURCE], envelope[PARENT])
  end
  return envelope ~= nil
end

-- ---------------------------------------------------------------------------------------------- the fold
-- A write is judged with reads alone, `after` all that its event writes: the kind of outcome, and a flat list of records
-- that it names.

local judges, writers = {}, {}

function judges.RecordCreated(base, e, after)
  if find(base, e.account, e.resource, e.key) then return EXISTS, {} end
  local missing = missing_refs(base, e, after)
  if e.parent ~= '' and not find(base, e.account, e.parent_resource, e.parent) then
    table.insert(missing, 1, e.parent)
    table.insert(missing, 1, e.parent_resource)
  end
  return #missing > 0 and MISSING or OK, missing
end

function judges.RecordChanged(base, e, after)
  local old = find(base, e.account, e.resource, e.key)
  if not old then return MISSING, { e.resource, e.key } end
  if old[VERSION] ~= e.expected then return CONFLICT, {} end
  local missing = missing_refs(base, e, after)
  if #missing > 0 then return MISSING, missing end
  local offered, found = set_of(e.offers), {}
  for i = 1, #old[OFFERS], 2 do
    local resource, key = old[OFFERS][i], old[OFFERS][i + 1]
    if not offered[resource .. '\0' .. key] and #found < 2 * LISTED then
      add_referrers(base, e.account, resource, key, after.own, after.count, found)
    end
  end
  return #found > 0 and IN_USE or OK, found
end

-- Each returns the record's envelope as it left it.

function writers.RecordCreated(base, e, clock)
  local number = 0
  if e.parent ~= '' then
    number = call('HINCRBY', base .. ':numbers:' .. e.account .. ':' .. e.resource, e.parent, 1)
    call('SADD', base .. ':kinds:' .. e.account .. ':' .. e.parent_resource .. ':' .. e.parent, e.resource)
  end
  local envelope = { e.offset, clock, clock, number, e.parent_resource, e.parent, e.refs, e.offers, e.record, e.sort_key }
  write_record(base, e, envelope)
  resort(base, e, '', envelope)
  call('ZADD', list_of(base, 'created', e.account, e.resource, e.parent), whole(clock), e.key)
  call('HSETNX', base .. ':owners:' .. e.resource, e.key, e.account)
  write_refs(base, e, {}, {})
  if e.resource == 'contests' then schedule(base, contest_name(e.account, e.key), e.due) end
  return envelope
end

function writers.RecordChanged(base, e, clock)
  local old = find(base, e.account, e.resource, e.key)
  local envelope = { e.offset, old[CREATED], clock, old[NUMBER], old[PARENT_RESOURCE], old[PARENT], e.refs, e.offers,
    e.record, e.sort_key }
  write_record(base, e, envelope)
  resort(base, e, old[SORT], envelope)
  write_refs(base, e, old[REFS], old[OFFERS])
  if e.resource == 'contests' then schedule(base, contest_name(e.account, e.key), e.due) end
  return envelope
end

-- One function per event type: judge, then write. Each returns the outcome's kind, a flat list of the records that the
-- outcome names, and the resulting records, if any: {key, envelope, key, envelope, ...}.

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
      after.own[name_of(write)] = nil  -- a change of what is not there leaves nothing to refer to
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

function folds.RecordDeleted(base, e)
  local old = find(base, e.account, e.resource, e.key)
  if not old then return MISSING, { e.resource, e.key } end
  if e.expected >= 0 and old[VERSION] ~= e.expected then return CONFLICT, {} end
  if e.expected_parent >= 0 then
    local above = find(base, e.account, old[PARENT_RESOURCE], old[PARENT])
    if not above or above[VERSION] ~= e.expected_parent then return CONFLICT, {} end
  end
  -- nothing outside refers to what belongs to a record, or to its parts (catalogue/resource_definition.py)
  local found = {}
  add_referrers(base, e.account, e.resource, e.key, { [name_of(e)] = true }, 1, found)
  if #found > 0 then return IN_USE, found end
  remove(base, e.account, e.resource, e.key, old)
  return OK, {}
end

function folds.KeyIssued(base, e)
  if call('HEXISTS', base .. ':keys', e.key) == 1 then return EXISTS, {} end
  call('HSET', base .. ':keys', e.key, pack({ e.account, e.sha256, e.permissions, e.at, e.rules }))
  call('HSET', base .. ':position', 'keys', whole(e.offset))
  return OK, {}
end

function folds.KeyRevoked(base, e)
  local packed = call('HGET', base .. ':keys', e.key)
  if not packed or unpack_one(packed)[1] ~= e.account then return MISSING, { 'keys', e.key } end
  call('HDEL', base .. ':keys', e.key)
  call('HSET', base .. ':position', 'keys', whole(e.offset))
  return OK, {}
end

local function event_of(item)
  local e = { kind = item[1], offset = item[2], time = item[3], at = item[4], account = item[5], command = item[6],
    content = item[7], contest = '', writes = {} }
  if e.kind == 'KeyIssued' or e.kind == 'KeyRevoked' then
    e.key, e.sha256, e.permissions, e.rules = item[8], item[9], item[10], item[11]
  elseif e.kind == 'RecordsWritten' then
    for i, write in ipairs(item[8]) do e.writes[i] = event_of(write) end
  else
    e.resource, e.key, e.contest, e.expected, e.expected_parent = item[8], item[9], item[10], item[11], item[12]
    e.record, e.parent_resource, e.parent, e.refs, e.offers = item[13], item[14], item[15], item[16], item[17]
    e.due, e.sort_key, e.writes[1] = item[18], item[19], e
  end
  return e
end

-- lazily: what is older is forgotten already, whether it still lies here or not
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

-- The position moves with each event, behind its writes.
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

-- ---------------------------------------------------------------------------------------------- reads

-- of the live generation, where that is fresh (shared/reads.lua): each reply is the fourth part of what is answered
local read = reads_of('catalogue', generations)

-- ARGV: generation ('' the live one). {log id, offset, records in quarantine, log time (ms)}; log id '' when nothing was
-- folded. Of a view that is not fresh, too.
redis.register_function({ function_name = 'catalogue_position', flags = { 'no-writes' }, callback = function(keys, args)
  local p = call('HMGET', generations.view(keys[1], args[1]) .. ':position', 'log', 'offset', 'poison', 'time')
  return { p[1] or '', p[2] or '0', p[3] or '0', p[4] or '0' }
end })

-- The number of swaps of the live generation.
read('mark', function(_, _, base) return generations.swaps(base) end)

-- ARGV: account, resource, key. The packed envelope, or nil.
read('get', function(base, args)
  local packed = call('HGET', records_of(base, args[1], args[2]), args[3])
  if packed and has_doomed(base) and not is_there(base, args[1], unpack_one(packed)) then return false end
  return packed
end)

-- {key, envelope, key, envelope, ...} of those keys that exist
local function envelopes(records, keys)
  local reply = {}
  sliced(keys, 1, function(...)
    local wanted = { ... }
    local packed = call('HMGET', records, ...)
    for i = 1, #wanted do
      if packed[i] then
        reply[#reply + 1] = wanted[i]
        reply[#reply + 1] = packed[i]
      end
    end
  end)
  return reply
end

-- ARGV: account, resource, key, ... {key, envelope, ...} of those that exist.
read('records', function(base, args)
  local found = envelopes(records_of(base, args[1], args[2]), { unpack(args, 3) })
  if not has_doomed(base) then return found end
  local reply = {}
  for i = 1, #found, 2 do
    if is_there(base, args[1], unpack_one(found[i + 1])) then
      reply[#reply + 1], reply[#reply + 2] = found[i], found[i + 1]
    end
  end
  return reply
end)

-- The keys of a page, by order: `after` is the last place of the page before, '' in the first one.
local pages = {}

-- newest first, at or after `since` (us, or -inf)
local function newest(name)
  return function(list, after, since, most)
    return call('ZRANGE', list(name), after == '' and '+inf' or '(' .. after, since, 'BYSCORE', 'REV', 'LIMIT', 0, most)
  end
end

pages.created, pages.updated = newest('created'), newest('updated')

-- numbers grow with the time of creation (us), the place
function pages.running_number(list, after, _, most)
  return call('ZRANGE', list('created'), after == '' and '-inf' or '(' .. after, '+inf', 'BYSCORE', 'LIMIT', 0, most)
end

-- the place is the sort key NUL the key
function pages.sort_key(list, after, _, most)
  local found = call('ZRANGE', list('sorted'), after == '' and '-' or '(' .. after, '+', 'BYLEX', 'LIMIT', 0, most)
  for i = 1, #found do found[i] = string.sub(found[i], string.find(found[i], '\0', 1, true) + 1) end
  return found
end

-- ARGV: account, resource, parent key, order (a name of `pages`), after, since, most.
read('page', function(base, args)
  local list = function(name) return list_of(base, name, args[1], args[2], args[3]) end
  local reply = envelopes(records_of(base, args[1], args[2]), pages[args[4]](list, args[5], args[6], args[7]))
  if reply[2] and has_doomed(base) and not is_there(base, args[1], unpack_one(reply[2])) then return {} end
  return reply
end)

-- ARGV: account, contest, most, time of the last change (us) of the participants that the caller has read, and of the
-- vote sources ('-inf' to begin). {version or '', swaps, envelope or '', {participant, envelope, ...}, their number in all,
-- {source, envelope, ...}, their number in all}: by their last change, so that what changes meanwhile comes again.
read('contest', function(base, args, own)
  local account, contest = args[1], args[2]
  local version = call('HGET', base .. ':config', contest) or ''
  local envelope = call('HGET', records_of(base, account, 'contests'), contest)
  local reply = { version, generations.swaps(own), envelope or '' }
  for i, resource in ipairs({ 'participants', 'vote_sources' }) do
    local list = list_of(base, 'updated', account, resource, contest)
    local keys = envelope and call('ZRANGE', list, '(' .. args[3 + i], '+inf', 'BYSCORE', 'LIMIT', 0, args[3]) or {}
    reply[2 + 2 * i], reply[3 + 2 * i] = envelopes(records_of(base, account, resource), keys), 0
    if envelope then reply[3 + 2 * i] = call('ZCARD', list) end
  end
  return reply
end)

-- ARGV: most. {account, contest, ...} of those that are due by now, the longest first.
read('due', function(base, args)
  local time = call('TIME')
  local now = whole(time[1] * 1000000 + time[2])
  local names, reply = call('ZRANGE', base .. ':due', '-inf', now, 'BYSCORE', 'LIMIT', 0, args[1]), {}
  for i = 1, #names do
    local cut = string.find(names[i], '\0', 1, true)
    reply[#reply + 1], reply[#reply + 2] = string.sub(names[i], 1, cut - 1), string.sub(names[i], cut + 1)
  end
  return reply
end)

-- ARGV: account, contest, configuration version, when it is due next (us; '' never). Settles what is due unless anything
-- of the contest has changed since that version. No part of the fold: a replay makes it due again.
redis.register_function('catalogue_settle', function(keys, args)
  local base, name = generations.view(keys[1]), contest_name(args[1], args[2])
  if call('HGET', base .. ':config', args[2]) ~= args[3] or not call('ZSCORE', base .. ':due', name) then return 0 end
  schedule(base, name, tonumber(args[4]))
  return 1
end)

-- ARGV: version that the caller holds, cursor ('0' to begin), how many keys about. {version, changed (1|0), next cursor ('0'
-- at the end), key id, packed row, ...}: pages of one version have all its keys, some twice.
read('keys', function(views, args, base)
  local version = (call('HGET', views .. ':position', 'keys') or '-1') .. '.' .. generations.swaps(base)
  if version == args[1] then return { version, 0, '0' } end
  local page = call('HSCAN', views .. ':keys', args[2], 'COUNT', args[3])
  local reply = { version, 1, page[1] }
  for i = 1, #page[2] do reply[i + 3] = page[2][i] end
  return reply
end)

-- ARGV: command ids. {packed outcome or '', ...} in their order
read('outcomes', function(base, args)
  local reply = call('HMGET', base .. ':outcomes', unpack(args))
  for i = 1, #args do reply[i] = reply[i] or '' end
  return reply
end)

-- ARGV: resource, key. The account that owns it, or nil.
read('owner', function(base, args)
  local account = call('HGET', base .. ':owners:' .. args[1], args[2])
  if account and has_doomed(base) and not is_there(base, account, find(base, account, args[1], args[2])) then
    return false
  end
  return account
end)
