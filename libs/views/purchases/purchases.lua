-- The views of one partition of the purchases log, under one hash tag: KEYS[1] is "<namespace>:{<tag of p>}", `base` is the
-- key prefix of a generation (shared/generations.lua).
--   base:position                hash  log, offset, time (ms, running maximum of the log's), clock (us, of the last
--                                      change), poison
--   base:records:<account>       hash  key -> packed purchase
--   base:users:<account>:<user>  zset  key by creation (us)
--   base:refused:<account>       zset  key by refusal (us), also of cast votes that stopped counting: the refund list
--   base:bought                  set   choices with cast votes: account NUL contest NUL participant
--   base:cast:<choice>           zset  key by offset, of those whose votes were cast and count
--   base:uncounted:<choice>      zset  key by offset, of those whose cast votes stopped counting
--   base:todo                    zset  account NUL key by offset, of those whose votes have to be cast or removed
--   base:quarantine              hash  offset -> reason
-- A purchase is a `Purchase` (contracts/purchase_events.py) by the names of its members, without those that are None, and
-- without account and key. Numbers stay below 2^53; times as in the catalogue.

local SCHEMA = 3  -- raised with every change of the stored layout, or of the fold's result for the same log
local RECORDED, CAST, UNCOUNTED, REFUSED, REFUNDED = 'recorded', 'cast', 'uncounted', 'refused', 'refunded'

local function records_of(base, account) return base .. ':records:' .. account end

-- ---------------------------------------------------------------------------------------------- the fold
-- One function per event type: returns the purchase after the event at `now`, or nil if nothing changes.

local folds = {}

function folds.PurchaseRecorded(p, e, now)
  if p and p.recorded then return nil end
  return { status = p and p.status or RECORDED, created = now, updated = now, offset = e.offset, taken_back = p ~= nil,
    recorded = e, subscription = e.subscription, reported_at = e.reported_at or now }
end

-- without a reported time, the event's place in the log decides
function folds.PurchaseUpdated(p, e, now)
  if not p or not p.recorded then return nil end
  if e.reported_at and e.reported_at <= p.reported_at then return nil end
  if e.subscription then p.subscription = e.subscription end
  if e.expiration then
    p.subscription = p.subscription or {}
    p.subscription.expiration = e.expiration
  end
  p.reported_at = e.reported_at or math.max(now, p.reported_at)
  p.updated = now
  return p
end

function folds.PurchaseRefunded(p, _, now)
  if not p then return { status = REFUNDED, created = now, updated = now } end
  if p.status == REFUNDED then return nil end
  p.status, p.updated = REFUNDED, now
  return p
end

local function has_votes(p) return p and p.recorded and p.recorded.vote end

function folds.PurchaseCast(p, _, now)
  if not has_votes(p) or p.status ~= RECORDED then return nil end
  p.status, p.updated = CAST, now
  return p
end

function folds.PurchaseUncounted(p, e, now)
  if not p or p.status ~= CAST then return nil end
  p.status, p.updated, p.refusal = UNCOUNTED, now, { e.code, e.reason }
  return p
end

function folds.PurchaseCountedAgain(p, _, now)
  if not p or p.status ~= UNCOUNTED then return nil end
  p.status, p.updated, p.refusal = CAST, now, nil
  return p
end

function folds.PurchaseRefused(p, e, now)
  -- of a cast and a refusal the first holds: a purchase that was cast looks open again while its log is folded again
  if not has_votes(p) or p.status ~= RECORDED then return nil end
  p.status, p.updated, p.refusal = REFUSED, now, { e.code, e.reason }
  return p
end

function folds.PurchaseTakenBack(p)
  if not has_votes(p) or p.taken_back or (p.status ~= REFUSED and p.status ~= REFUNDED) then return nil end
  p.taken_back = true
  return p
end

local function is_open(p)
  return has_votes(p)
    and (p.status == RECORDED or ((p.status == REFUSED or p.status == REFUNDED) and not p.taken_back))
end

-- lists the purchase under its choice, in one of two lists, while its votes are cast
local function place(base, e, p)
  if not has_votes(p) then return end
  local choice = table.concat({ e.account, p.recorded.vote.contest_key, p.recorded.vote.participant_key }, '\0')
  local lists = { [CAST] = base .. ':cast:' .. choice, [UNCOUNTED] = base .. ':uncounted:' .. choice }
  local listed = false
  for status, list in pairs(lists) do
    if p.status == status then call('ZADD', list, whole(p.offset), e.key) else call('ZREM', list, e.key) end
    listed = listed or call('EXISTS', list) == 1
  end
  call(listed and 'SADD' or 'SREM', base .. ':bought', choice)
end

-- the record last: a fold that ended in between is done again from the record
local function write(base, e, p)
  if p.offset == e.offset then
    call('ZADD', base .. ':users:' .. e.account .. ':' .. e.user, whole(p.created), e.key)
  end
  place(base, e, p)
  if p.status == REFUSED or p.status == UNCOUNTED then
    call('ZADD', base .. ':refused:' .. e.account, whole(p.updated), e.key)
  else
    call('ZREM', base .. ':refused:' .. e.account, e.key)
  end
  local todo, member = base .. ':todo', e.account .. '\0' .. e.key
  if is_open(p) then call('ZADD', todo, whole(e.offset), member) else call('ZREM', todo, member) end
  call('HSET', records_of(base, e.account), e.key, pack_named(p))
end

-- The position moves after each event's writes.
local function fold(base, items, range)
  local stored = call('HMGET', base .. ':position', 'time', 'clock')
  local time, clock = tonumber(stored[1] or 0), tonumber(stored[2] or 0)
  for _, e in ipairs(items) do
    local kind = e.offset < range.from and 'folded' or e.type
    if kind ~= 'folded' then time = math.max(time, e.time) end
    if kind == 'poison' then
      call('HSET', base .. ':quarantine', whole(e.offset), e.reason)
      call('HINCRBY', base .. ':position', 'poison', 1)
    elseif kind ~= 'folded' and kind ~= 'nothing' then
      local now = math.max(clock + 1, math.min(e.at, time * 1000 + 999))
      local packed = call('HGET', records_of(base, e.account), e.key)
      local p = folds[kind](packed and unpack_one(packed) or nil, e, now)
      if p then
        write(base, e, p)
        clock = now
      end
    end
    if kind ~= 'folded' then
      call('HSET', base .. ':position', 'offset', whole(e.offset + 1), 'time', whole(time), 'clock', whole(clock))
    end
  end
end

local generations = generations_of('purchases', SCHEMA, fold, {})

-- ---------------------------------------------------------------------------------------------- reads

-- Reads of the live generation, if it is fresh (shared/reads.lua): each reply is the fourth part of the function's answer
local read = reads_of('purchases', generations)

-- ARGV: generation ('' the live one). {log id, offset, records in quarantine}; log id '' when nothing was folded. Of a
-- view that is not fresh, too.
library.register_read('purchases_position', function(keys, args)
  local p = call('HMGET', generations.view(keys[1], args[1]) .. ':position', 'log', 'offset', 'poison')
  return { p[1] or '', p[2] or '0', p[3] or '0' }
end)

-- ARGV: account, key. The packed purchase, or nil.
read('get', function(base, args)
  return call('HGET', records_of(base, args[1]), args[2])
end)

-- ARGV: list ('users:<account>:<user>' or 'refused:<account>'), account, latest (us, or +inf), most (at most 4,000).
-- {moment (us), key, packed, ...}, newest first
read('page', function(base, args)
  local found = call('ZRANGE', base .. ':' .. args[1], args[3], '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, args[4],
    'WITHSCORES')
  local reply = {}
  for i = 1, #found, 2 do
    reply[#reply + 1] = found[i + 1]
    reply[#reply + 1] = found[i]
    reply[#reply + 1] = call('HGET', records_of(base, args[2]), found[i])
  end
  return reply
end)

-- ARGV: offset after which to begin, most. {offset, account, key, packed, ...}, in log order
read('todo', function(base, args)
  local found = call('ZRANGE', base .. ':todo', '(' .. args[1], '+inf', 'BYSCORE', 'LIMIT', 0, args[2],
    'WITHSCORES')
  local reply = {}
  for i = 1, #found, 2 do
    local cut = string.find(found[i], '\0', 1, true)
    local account, key = string.sub(found[i], 1, cut - 1), string.sub(found[i], cut + 1)
    reply[#reply + 1] = found[i + 1]
    reply[#reply + 1] = account
    reply[#reply + 1] = key
    reply[#reply + 1] = call('HGET', records_of(base, account), key)
  end
  return reply
end)

-- By partition: 1 where purchases are open, else 0; of a view that is not fresh, too.
library.register_read_each('purchases_with_open', function(base)
  return call('EXISTS', generations.view(base) .. ':todo')
end)

-- By partition: 1 where the votes of purchases are cast, also if they do not count any more, else 0.
library.register_read_each('purchases_with_bought', function(base)
  return call('EXISTS', generations.view(base) .. ':bought')
end)

-- ARGV: cursor ('0' to begin), most. {next cursor ('0' at the end), choice, 1 if some of its purchases are cast, 1 if
-- some are uncounted, ...}
read('bought', function(base, args)
  local page = call('SSCAN', base .. ':bought', args[1], 'COUNT', args[2])
  local reply = { page[1] }
  for i = 1, #page[2] do
    local choice = page[2][i]
    reply[#reply + 1] = choice
    reply[#reply + 1] = call('EXISTS', base .. ':cast:' .. choice)
    reply[#reply + 1] = call('EXISTS', base .. ':uncounted:' .. choice)
  end
  return reply
end)

-- ARGV: list ('cast' or 'uncounted'), choice, most. {key, ...}, in log order
read('bought_for', function(base, args)
  return call('ZRANGE', base .. ':' .. args[1] .. ':' .. args[2], 0, args[3] - 1)
end)
