-- How many free votes an address gave a participant.
-- KEYS[1]: counter of one contest, participant and address, in a slot of its own; "" holds the sum. Advisory.

-- ARGV: digest, count, limit, expiry (seconds since 1970, 0: none). {1 taken, 2 had it already, 0 full; used before}
redis.register_function('address_take', function(keys, args)
  if call('HEXISTS', keys[1], args[1]) == 1 then return { 2, 0 } end
  local sum, count, limit = tonumber(call('HGET', keys[1], '') or 0), tonumber(args[2]), tonumber(args[3])
  if limit ~= UNLIMITED and sum + count > limit then return { 0, sum } end
  call('HSET', keys[1], args[1], count, '', sum + count)
  if args[4] ~= '0' then call('EXPIREAT', keys[1], args[4]) end
  return { 1, sum }
end)

-- ARGV: digest. Gives back what it took.
redis.register_function('address_give', function(keys, args)
  local count = tonumber(call('HGET', keys[1], args[1]) or 0)
  if count > 0 then
    call('HDEL', keys[1], args[1])
    call('HINCRBY', keys[1], '', -count)
  end
  return count
end)
