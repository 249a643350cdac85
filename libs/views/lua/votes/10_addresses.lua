-- Counters of the free votes of an address for a participant.
-- KEYS[1]: counter of one contest, participant and address, in a slot of its own; "" holds the sum. Advisory.

local function take_from(key, digest, count) call('HSET', key, digest, count, '', (call('HGET', key, '') or 0) + count) end

local function give_to(key, digest)
  local count = tonumber(call('HGET', key, digest) or 0)
  if count > 0 then
    call('HDEL', key, digest)
    call('HINCRBY', key, '', -count)
  end
  return count
end

-- ARGV: digest, count, limit, expiry (seconds since 1970, 0: none). {1 taken, 2 had it already, 0 full; used before}
redis.register_function('address_take', function(keys, args)
  if call('HEXISTS', keys[1], args[1]) == 1 then return { 2, 0 } end
  local sum, count, limit = tonumber(call('HGET', keys[1], '') or 0), tonumber(args[2]), tonumber(args[3])
  if limit ~= UNLIMITED and sum + count > limit then return { 0, sum } end
  take_from(keys[1], args[1], count)
  if args[4] ~= '0' then call('EXPIREAT', keys[1], args[4]) end
  return { 1, sum }
end)

-- ARGV: digest. Gives back its votes.
redis.register_function('address_give', function(keys, args) return give_to(keys[1], args[1]) end)

-- ARGV: expiry (seconds since 1970), digest, count, ...: what votes took before Valkey may have lost it, without a limit
-- and in the order of the log; count 0 gives it back.
redis.register_function('address_refill', function(keys, args)
  local taken = false
  for i = 2, #args, 2 do
    local count = tonumber(args[i + 1])
    if count == 0 then
      give_to(keys[1], args[i])
    elseif call('HEXISTS', keys[1], args[i]) == 0 then
      take_from(keys[1], args[i], count)
      taken = true
    end
  end
  if taken then call('EXPIREAT', keys[1], args[1]) end
end)
