-- Reads of the live generation, if it is fresh (generations/reads.lua): each reply is the fourth part of the function's answer.

local read = reads_of('catalogue', generations)

-- The number of swaps of the live generation.
read('mark', function(_, _, base) return generations.swaps(base) end)

-- ARGV: account, resource, key. The packed envelope, or nil.
read('get', function(base, args)
  local packed = call('HGET', records_of(base, args[1], args[2]), args[3])
  if packed and hides_records(base, args[1]) and not is_there(base, args[1], unpack_one(packed)) then return false end
  return packed
end)

-- {key, envelope, key, envelope, ...} of those keys that exist. After REPLY_BYTES of envelopes each further one is '': the
-- caller reads those by another call, so no call takes long however large the records are.
local REPLY_BYTES = 262144
local function envelopes(records, keys)
  local reply, bytes = {}, 0
  for i = 1, #keys do
    local packed = ''
    if bytes < REPLY_BYTES then packed = call('HGET', records, keys[i]) end
    if packed then
      bytes = bytes + #packed
      reply[#reply + 1], reply[#reply + 2] = keys[i], packed
    end
  end
  return reply
end

-- ARGV: account, resource, key, ... The `envelopes` of those that exist.
read('records', function(base, args)
  local found = envelopes(records_of(base, args[1], args[2]), { unpack(args, 3) })
  if not hides_records(base, args[1]) then return found end
  local reply = {}
  for i = 1, #found, 2 do
    if found[i + 1] == '' or is_there(base, args[1], unpack_one(found[i + 1])) then
      reply[#reply + 1], reply[#reply + 2] = found[i], found[i + 1]
    end
  end
  return reply
end)

-- ARGV: account, resource, list, arguments of ZRANGE: its members are keys, or end with NUL and the key. The `envelopes`.
read('page', function(base, args)
  local keys = call('ZRANGE', base .. ':' .. args[3], unpack(args, 4))
  for i = 1, #keys do keys[i] = string.sub(keys[i], (string.find(keys[i], '\0', 1, true) or 0) + 1) end
  local reply = envelopes(records_of(base, args[1], args[2]), keys)
  if reply[2] and hides_records(base, args[1]) and not is_there(base, args[1], unpack_one(reply[2])) then return {} end
  return reply
end)

-- ARGV: account, contest, most, time of the last change (us) of the participants that the caller has read, and of the
-- vote sources ('-inf' to begin). {version or '', swaps, envelope or '', envelope of the show or '', {participant, envelope, ...}, their number in all,
-- {source, envelope, ...}, their number in all}: by their last change, so that records changed meanwhile are returned again.
read('contest', function(base, args, own)
  local account, contest = args[1], args[2]
  local version = call('HGET', base .. ':config', contest) or ''
  local envelope = call('HGET', records_of(base, account, 'contests'), contest)
  local show = call('HGET', records_of(base, account, 'shows'), contest)
  local reply = { version, generations.swaps(own), envelope or '', envelope and show or '' }
  for i, resource in ipairs({ 'participants', 'vote_sources' }) do
    local list = base .. ':updated:' .. account .. ':' .. resource .. ':' .. contest
    local keys = envelope and call('ZRANGE', list, '(' .. args[3 + i], '+inf', 'BYSCORE', 'LIMIT', 0, args[3]) or {}
    reply[3 + 2 * i], reply[4 + 2 * i] = envelopes(records_of(base, account, resource), keys), 0
    if envelope then reply[4 + 2 * i] = call('ZCARD', list) end
  end
  return reply
end)

-- ARGV: most. The contests that are due by now, each as account NUL contest, the longest due first.
read('due', function(base, args)
  return call('ZRANGE', base .. ':due', '-inf', whole(microseconds()), 'BYSCORE', 'LIMIT', 0, args[1])
end)

-- ARGV: account, contest, configuration version, when it is due next (us; '' never). Settles the due closing unless anything
-- of the contest has changed since that version. No part of the fold: a replay makes it due again.
library.register('catalogue_settle', function(keys, args)
  local base, name = generations.view(keys[1]), args[1] .. '\0' .. args[2]
  if call('HGET', base .. ':config', args[2]) ~= args[3] or not call('ZSCORE', base .. ':due', name) then return 0 end
  if args[4] == '' then call('ZREM', base .. ':due', name) else call('ZADD', base .. ':due', args[4], name) end
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

-- ARGV: resource, key. The account that owns it, or nil.
read('owner', function(base, args)
  local account = call('HGET', base .. ':owners:' .. args[1], args[2])
  if account and hides_records(base, account) and not is_there(base, account, find(base, account, args[1], args[2])) then
    return false
  end
  return account
end)
