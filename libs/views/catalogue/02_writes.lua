-- A write of one record: judged with reads alone, then written.

-- Returns the dangling references as a flat list: neither a record nor an offered part exists for them `after` an event's
-- writes. `own`: the written records and the parts they offer; `lost`: the parts that they offered until then
local function missing_refs(base, e, after)
  local missing = {}
  for i = 1, #e.refs, 2 do
    local resource, key = e.refs[i], e.refs[i + 1]
    local name = resource .. '\0' .. key
    if not after.own[name] and (after.lost[name] or not exists(base, e.account, resource, key)) then
      missing[#missing + 1] = resource
      missing[#missing + 1] = key
    end
  end
  return missing
end

-- Adds to `found` the records that refer to a record or part, without the `count` ones in `except`.
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

-- A write is judged with reads alone, `after` all that its event writes: the kind of outcome, and a flat list of records
-- that it names.

local judges, writers = {}, {}

function judges.RecordCreated(base, e, after)
  if find(base, e.account, e.resource, e.key) then return EXISTS, {} end
  if e.resource == 'contests' and find(base, e.account, DELETED, e.key) then return EXISTS, {} end
  local missing = missing_refs(base, e, after)
  if e.parent ~= '' and not find(base, e.account, e.parent_resource, e.parent) then
    table.insert(missing, 1, e.parent)
    table.insert(missing, 1, e.parent_resource)
  end
  return #missing > 0 and MISSING or OK, missing
end

function judges.RecordChanged(base, e, after)
  local old = find_there(base, e.account, e.resource, e.key)
  if not old then return MISSING, { e.resource, e.key } end
  if old[VERSION] ~= e.expected_version then return CONFLICT, {} end
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
