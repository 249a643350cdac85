-- The views of one partition of the purchases log, under one hash tag: KEYS[1] is "<namespace>:{<tag of p>}", `base` is the
-- key prefix of a generation (generations/generations.lua).
--   base:position                hash  log, offset, time (ms, running maximum of the log's), clock (us, of the last
--                                      change), poison
--   base:records:<account>       hash  key -> packed purchase
--   base:users:<account>:<user>  zset  key by creation (us)
--   base:refused:<account>       zset  key by refusal (us), also of cast votes that stopped counting: the refund list
--   base:bought                  set   choices with votes that were ever cast: account NUL contest NUL participant
--   base:cast:<choice>           zset  key by offset, of those whose votes were cast and count
--   base:uncounted:<choice>      zset  key by offset, of those whose cast votes stopped counting
--   base:todo                    zset  account NUL key by offset, of those whose votes have to be cast or removed
--   base:quarantine              hash  offset -> reason
-- A purchase is a `Purchase` (contracts/purchase_events.py). Times as in the catalogue. `purchase_fold.py` writes all of this.

local SCHEMA = 4  -- raised with every change of the stored layout, or of the fold's result for the same log

local function records_of(base, account) return base .. ':records:' .. account end

local generations = generations_of('purchases', SCHEMA, write_all, {})

-- Reads of the live generation, if it is fresh (generations/reads.lua): each reply is the fourth part of the function's answer
local read = reads_of('purchases', generations)

-- ARGV: account ('' where it stands before each member, with NUL), list, arguments of ZRANGE ... WITHSCORES. {score, member,
-- packed purchase, ...}
read('list', function(base, args)
  local found, reply = call('ZRANGE', base .. ':' .. args[2], unpack(args, 3)), {}
  for i = 1, #found, 2 do
    local account, key = args[1], found[i]
    if account == '' then account, key = string.match(key, '^([^%z]*)%z(.*)$') end
    reply[#reply + 1], reply[#reply + 2] = found[i + 1], found[i]
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
