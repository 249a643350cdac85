-- Counters of the free votes of an address for a participant.
-- A key: counter of one contest, participant and address, in a slot of its own, by digest of a taker its votes; "" holds the
-- sum, and a digest with HOLDS the attempts of that taker besides the first one, each of which gives back for itself. Advisory.

local addresses = { FULL = 0, TAKEN = 1, HAD = 2 }
local HOLDS = '+'

do
  -- Gives back what one attempt of a taker holds; its votes go with the last attempt, or at once if it is `removed`.
  function addresses.give(key, digest, removed)
    local count, others = tonumber(call('HGET', key, digest) or 0), tonumber(call('HGET', key, digest .. HOLDS) or 0)
    if others > 0 and not removed then
      call('HINCRBY', key, digest .. HOLDS, -1)
    elseif count > 0 then
      call('HDEL', key, digest, digest .. HOLDS)
      call('HINCRBY', key, '', -count)
    end
  end

  -- args: limit, expiry (seconds since 1970, 0: none), digest, votes. {FULL, TAKEN or HAD, used before}. A taker that has
  -- more votes than before uses the difference: two requests may have one vote id.
  function addresses.use(key, args)
    local limit, expiry, digest = args[1], args[2], args[3]
    local found = call('HMGET', key, '', digest)
    local sum, had = tonumber(found[1] or 0), tonumber(found[2] or 0)
    local more, state = math.max(0, args[4] - had), had > 0 and addresses.HAD or addresses.TAKEN
    if more > 0 and limit ~= UNLIMITED and sum + more > limit then return { addresses.FULL, sum } end
    if had > 0 then call('HINCRBY', key, digest .. HOLDS, 1) end
    if more > 0 then
      call('HSET', key, '', sum + more, digest, had + more)
      if expiry ~= 0 then call('EXPIREAT', key, expiry) end
    end
    return { state, state == addresses.HAD and 0 or sum }
  end

  local function take(key, _, packed) return addresses.use(key, unpack_one(packed)) end

  -- KEYS: counters, several only where one server has them all. ARGV: of each the packed arguments of `use`. Its result of
  -- each, or its error.
  library.register('address_take', function(keys, args) return library.each_key(keys, args, take) end)

  -- ARGV: digest, '1' if its vote was removed. See `give`.
  library.register('address_give', function(keys, args) addresses.give(keys[1], args[1], args[2] == '1') end)

  -- ARGV: expiry (seconds since 1970), digest, count, ...: what votes took before Valkey may have lost it, without a limit
  -- and in the order of the log; count 0 gives it back.
  library.register('address_refill', function(keys, args)
    local taken = false
    for i = 2, #args, 2 do
      local count = tonumber(args[i + 1])
      if count == 0 then
        addresses.give(keys[1], args[i], true)
      elseif call('HEXISTS', keys[1], args[i]) == 0 then
        call('HSET', keys[1], args[i], count, '', (call('HGET', keys[1], '') or 0) + count)
        taken = true
      end
    end
    if taken then call('EXPIREAT', keys[1], args[1]) end
  end)
end
