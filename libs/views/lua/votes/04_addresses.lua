-- Counters of the free votes of an address for a participant.
-- A key: counter of one contest, participant and address, in a slot of its own; "" holds the sum. Advisory.

local addresses = { FULL = 0, TAKEN = 1, HAD = 2 }

do
  local function take_from(key, digest, count) call('HSET', key, digest, count, '', (call('HGET', key, '') or 0) + count) end

  function addresses.give(key, digest)
    local count = tonumber(call('HGET', key, digest) or 0)
    if count > 0 then
      call('HDEL', key, digest)
      call('HINCRBY', key, '', -count)
    end
    return count
  end

  -- args: limit, expiry (seconds since 1970, 0: none), digest, count, ... Each vote is decided after those before it:
  -- {FULL, TAKEN or HAD, used before, ...}
  function addresses.use(key, args)
    local limit, expiry, fields = args[1], args[2], { '' }
    for i = 3, #args, 2 do fields[#fields + 1] = args[i] end
    local taken = read_fields(key, fields)
    local sum, replies, written = tonumber(taken[''] or 0), {}, {}
    for i = 3, #args, 2 do
      local digest, count, state = args[i], args[i + 1], addresses.TAKEN
      if taken[digest] then
        state = addresses.HAD
      elseif limit ~= UNLIMITED and sum + count > limit then
        state = addresses.FULL
      end
      replies[#replies + 1], replies[#replies + 2] = state, state == addresses.HAD and 0 or sum
      if state == addresses.TAKEN then
        sum, taken[digest] = sum + count, count
        written[#written + 1], written[#written + 2] = digest, count
      end
    end
    if #written > 0 then
      call('HSET', key, '', sum, unpack(written))
      if expiry ~= 0 then call('EXPIREAT', key, expiry) end
    end
    return replies
  end

  local function take(key, _, packed) return addresses.use(key, unpack_one(packed)) end

  -- KEYS: counters, several only where one server has them all. ARGV: of each the packed arguments of `use`. Its result of
  -- each, or its error.
  library.register('address_take', function(keys, args) return library.each_key(keys, args, take) end)

  -- ARGV: digest. Gives back its votes.
  library.register('address_give', function(keys, args) return addresses.give(keys[1], args[1]) end)

  -- ARGV: expiry (seconds since 1970), digest, count, ...: what votes took before Valkey may have lost it, without a limit
  -- and in the order of the log; count 0 gives it back.
  library.register('address_refill', function(keys, args)
    local taken = false
    for i = 2, #args, 2 do
      local count = tonumber(args[i + 1])
      if count == 0 then
        addresses.give(keys[1], args[i])
      elseif call('HEXISTS', keys[1], args[i]) == 0 then
        take_from(keys[1], args[i], count)
        taken = true
      end
    end
    if taken then call('EXPIREAT', keys[1], args[1]) end
  end)
end
