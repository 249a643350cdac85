-- A Valkey in memory, for the shipped functions: the commands that they call, over Lua tables.
-- Loaded once per simulated server. Returns a table of functions for `memory_valkey.py`.
-- `host`: now() (us), run() and replication() (ids), sha1hex(text), pace() (seconds of the processor's time between two looks
-- at its clock).

local host = ...

local keys = {}  -- name -> { kind =, value =, order = (zset: sorted members, nil: to be sorted) }
local functions = {}

local type, tostring, tonumber, pairs, unpack, select, error = type, tostring, tonumber, pairs, unpack, select, error
local format, byte, char, sub, floor = string.format, string.byte, string.char, string.sub, math.floor
local concat, sort, remove = table.concat, table.sort, table.remove

local function text(value)
  if type(value) ~= 'string' then
    if value == floor(value) and value > -2 ^ 63 and value < 2 ^ 63 then return format('%.0f', value) end
    return format('%.17g', value)
  end
  return value
end

local function at(name, kind)
  local found = keys[name]
  if found and found.kind ~= kind then
    error({ err = 'WRONGTYPE Operation against a key holding the wrong kind of value' })
  end
  return found and found.value, found
end

local function opened(name, kind)
  local value, found = at(name, kind)
  if not value then
    value = {}
    found = { kind = kind, value = value }
    keys[name] = found
  end
  return value, found
end

-- removes fields or members, and returns how many there were
local function removed(name, kind, ...)
  local value, found = at(name, kind)
  if not value then return 0 end
  local gone = 0
  for i = 1, select('#', ...) do
    local member = text((select(i, ...)))
    if value[member] then value[member], gone = nil, gone + 1 end
  end
  found.order = nil
  if next(value) == nil then keys[name] = nil end
  return gone
end

local function precedes(zset)
  return function(a, b)
    local x, y = zset[a], zset[b]
    if x ~= y then return x < y end
    return a < b
  end
end

local function ordered(name)
  local zset, found = at(name, 'zset')
  if not zset then return {}, {} end
  if not found.order then
    local order = {}
    for member in pairs(zset) do order[#order + 1] = member end
    sort(order, precedes(zset))
    found.order = order
  end
  return found.order, zset
end

local commands = {}

function commands.TYPE(name) return { ok = keys[name] and keys[name].kind or 'none' } end

function commands.EXISTS(name) return keys[name] and 1 or 0 end

function commands.UNLINK(...)
  local gone = 0
  for i = 1, select('#', ...) do
    local name = select(i, ...)
    if keys[name] then keys[name], gone = nil, gone + 1 end
  end
  return gone
end

function commands.RENAME(name, other)
  if not keys[name] then error({ err = 'ERR no such key' }) end
  keys[other], keys[name] = keys[name], nil
  return { ok = 'OK' }
end

-- all as one page; of a pattern only its stars are special
function commands.SCAN(_, _, pattern)
  pattern = '^' .. string.gsub(string.gsub(pattern, '[%[%](){}.+?^$%%-]', '%%%0'), '%*', '.*') .. '$'
  local found = {}
  for name in pairs(keys) do
    if string.find(name, pattern) then found[#found + 1] = name end
  end
  sort(found)
  return { '0', found }
end

function commands.EXPIREAT(name) return keys[name] and 1 or 0 end
commands.EXPIRE = commands.EXPIREAT

function commands.GET(name) return at(name, 'string') or false end

function commands.SET(name, value, ...)
  for i = 1, select('#', ...) do
    if select(i, ...) == 'NX' and keys[name] then return false end
  end
  keys[name] = { kind = 'string', value = text(value) }
  return { ok = 'OK' }
end

function commands.INCRBY(name, more)
  local sum = tonumber(at(name, 'string') or 0) + more
  keys[name] = { kind = 'string', value = text(sum) }
  return sum
end

function commands.HGET(name, field)
  local hash = at(name, 'hash')
  return hash and hash[text(field)] or false
end

function commands.HMGET(name, ...)
  local hash, found = at(name, 'hash') or {}, { ... }
  for i = 1, #found do
    local field = found[i]
    if type(field) ~= 'string' then field = text(field) end
    found[i] = hash[field] or false
  end
  return found
end

function commands.HEXISTS(name, field)
  local hash = at(name, 'hash')
  return hash and hash[text(field)] and 1 or 0
end

function commands.HLEN(name)
  local count = 0
  for _ in pairs(at(name, 'hash') or {}) do count = count + 1 end
  return count
end

function commands.HSET(name, ...)
  local hash, new, pairs_ = opened(name, 'hash'), 0, { ... }
  for i = 1, #pairs_, 2 do
    local field = text(pairs_[i])
    if not hash[field] then new = new + 1 end
    hash[field] = text(pairs_[i + 1])
  end
  return new
end

function commands.HINCRBY(name, field, more)
  local hash = opened(name, 'hash')
  field = text(field)
  local sum = tonumber(hash[field] or 0) + more
  hash[field] = text(sum)
  return sum
end

function commands.HDEL(name, ...) return removed(name, 'hash', ...) end

local function fields_of(hash)
  local fields = {}
  for field in pairs(hash) do fields[#fields + 1] = field end
  sort(fields)
  return fields
end

function commands.HGETALL(name)
  local hash, flat = at(name, 'hash') or {}, {}
  for _, field in ipairs(fields_of(hash)) do flat[#flat + 1], flat[#flat + 2] = field, hash[field] end
  return flat
end

-- all as one page, as of a small hash
function commands.HSCAN(name, _, ...)
  for i = 1, select('#', ...) do
    if select(i, ...) == 'NOVALUES' then return { '0', fields_of(at(name, 'hash') or {}) } end
  end
  return { '0', commands.HGETALL(name) }
end

function commands.SADD(name, ...)
  local set, new = opened(name, 'set'), 0
  for i = 1, select('#', ...) do
    local member = text((select(i, ...)))
    if not set[member] then set[member], new = true, new + 1 end
  end
  return new
end

function commands.SREM(name, ...) return removed(name, 'set', ...) end

function commands.SMEMBERS(name) return fields_of(at(name, 'set') or {}) end
function commands.SSCAN(name) return { '0', commands.SMEMBERS(name) } end

function commands.SISMEMBER(name, member)
  local set = at(name, 'set')
  return set and set[text(member)] and 1 or 0
end

function commands.ZADD(name, ...)
  local zset, found = opened(name, 'zset')
  local new, all = 0, { ... }
  for i = 1, #all, 2 do
    local member = text(all[i + 1])
    if not zset[member] then new = new + 1 end
    zset[member] = tonumber(all[i])
  end
  found.order = nil
  return new
end

function commands.ZREM(name, ...) return removed(name, 'zset', ...) end

function commands.ZCARD(name) return #ordered(name) end

function commands.ZSCORE(name, member)
  local zset = at(name, 'zset')
  local score = zset and zset[text(member)]
  return score and text(score) or false
end

local function score_bound(value)
  value = text(value)
  local open = sub(value, 1, 1) == '('
  if open then value = sub(value, 2) end
  if value == '-inf' then return -math.huge, open end
  if value == '+inf' then return math.huge, open end
  return tonumber(value), open
end

local function within_scores(low, high)
  local least, above = score_bound(low)
  local most, below = score_bound(high)
  return function(_, score)
    return (score > least or (score == least and not above)) and (score < most or (score == most and not below))
  end
end

local function within_names(low, high)
  local least, most = sub(low, 2), sub(high, 2)
  local from, till = sub(low, 1, 1), sub(high, 1, 1)
  return function(member)
    return (from == '-' or member > least or (from == '[' and member == least))
      and (till == '+' or member < most or (till == '[' and member == most))
  end
end

-- members that `accepts`, from the last one where `reversed`, but the first `skipped`, at most `count` (below 0: all)
local function selected(name, accepts, reversed, skipped, count, with_scores)
  local order, zset = ordered(name)
  local found, first, last, step = {}, 1, #order, 1
  if reversed then first, last, step = #order, 1, -1 end
  for i = first, last, step do
    local member = order[i]
    if count == 0 then break end
    if accepts(member, zset[member]) then
      if skipped > 0 then
        skipped = skipped - 1
      else
        count = count - 1
        found[#found + 1] = member
        if with_scores then found[#found + 1] = text(zset[member]) end
      end
    end
  end
  return found
end

local function by_rank(name, from, till, reversed, with_scores)
  local order, zset = ordered(name)
  local size, found = #order, {}
  from, till = tonumber(from), tonumber(till)
  if from < 0 then from = math.max(0, size + from) end
  if till < 0 then till = size + till end
  for i = from, math.min(till, size - 1) do
    local member = order[reversed and size - i or i + 1]
    found[#found + 1] = member
    if with_scores then found[#found + 1] = text(zset[member]) end
  end
  return found
end

local function zrange(name, low, high, by, reversed, ...)
  local with_scores, skipped, count = false, 0, -1
  local options = { ... }
  local i = 1
  while i <= #options do
    local option = options[i]
    if option == 'WITHSCORES' then
      with_scores = true
    elseif option == 'BYSCORE' or option == 'BYLEX' then
      by = option
    elseif option == 'REV' then
      reversed, low, high = true, high, low
    elseif option == 'LIMIT' then
      skipped, count, i = tonumber(options[i + 1]), tonumber(options[i + 2]), i + 2
    else
      error('unknown option ' .. tostring(option))
    end
    i = i + 1
  end
  if by == 'BYSCORE' then return selected(name, within_scores(low, high), reversed, skipped, count, with_scores) end
  if by == 'BYLEX' then return selected(name, within_names(low, high), reversed, skipped, count, with_scores) end
  return by_rank(name, low, high, reversed, with_scores)
end

function commands.ZRANGE(name, low, high, ...) return zrange(name, low, high, nil, false, ...) end
function commands.ZREVRANGE(name, low, high, ...) return zrange(name, low, high, nil, true, ...) end
function commands.ZRANGEBYLEX(name, low, high, ...) return zrange(name, low, high, 'BYLEX', false, ...) end
function commands.ZRANGEBYSCORE(name, low, high, ...) return zrange(name, low, high, 'BYSCORE', false, ...) end
function commands.ZREVRANGEBYLEX(name, high, low, ...) return zrange(name, low, high, 'BYLEX', true, ...) end
function commands.ZSCAN(name) return { '0', zrange(name, 0, -1, nil, false, 'WITHSCORES') } end

function commands.TIME()
  local now = host.now()
  local seconds = floor(now / 1000000)
  return { format('%.0f', seconds), format('%.0f', now - seconds * 1000000) }
end

function commands.INFO(section)
  if section == 'server' then return 'run_id:' .. host.run() .. '\r\n' end
  return 'role:master\r\nmaster_replid:' .. host.replication() .. '\r\n'
end

redis = {}

function redis.call(command, ...) return commands[command](...) end

redis.sha1hex = host.sha1hex

function redis.register_function(name, callback)
  if type(name) == 'table' then name, callback = name.function_name, name.callback end
  functions[name] = callback
end

local clock_number = 0

os = { clock = function()
  clock_number = clock_number + 1
  return clock_number * host.pace()
end }

-- cmsgpack and struct, as Valkey has them

local packers = {}

local function pack_into(out, value) packers[type(value)](out, value) end

local function two(value) return char(floor(value / 256), value % 256) end

local function four(value)
  return char(floor(value / 16777216), floor(value / 65536) % 256, floor(value / 256) % 256, value % 256)
end

local function eight(value) return four(floor(value / 4294967296)) .. four(value % 4294967296) end

local function integer(value, size)
  local bytes = {}
  for i = size, 1, -1 do
    bytes[i] = value % 256
    value = floor(value / 256)
  end
  return char(unpack(bytes))
end

local function float64(value)
  if value ~= value then return '\203\127\248\0\0\0\0\0\0' end
  if value == math.huge then return '\203\127\240\0\0\0\0\0\0' end
  if value == -math.huge then return '\203\255\240\0\0\0\0\0\0' end
  local sign = 0
  if value < 0 then sign, value = 128, -value end
  local mantissa, exponent = math.frexp(value)
  mantissa, exponent = (mantissa * 2 - 1) * 2 ^ 52, exponent + 1022
  return char(203, sign + floor(exponent / 16), (exponent % 16) * 16 + floor(mantissa / 2 ^ 48)) .. integer(mantissa % 2 ^ 48, 6)
end

packers['nil'] = function(out) out[#out + 1] = '\192' end
packers.boolean = function(out, value) out[#out + 1] = value and '\195' or '\194' end

function packers.number(out, value)
  local packed
  if value ~= floor(value) or value >= 2 ^ 63 or value <= -2 ^ 63 then
    packed = float64(value)
  elseif value >= 0 then
    if value < 128 then packed = char(value)
    elseif value < 256 then packed = '\204' .. char(value)
    elseif value < 65536 then packed = '\205' .. two(value)
    elseif value < 4294967296 then packed = '\206' .. four(value)
    else packed = '\207' .. eight(value) end
  elseif value >= -32 then packed = char(256 + value)
  elseif value >= -128 then packed = '\208' .. char(256 + value)
  elseif value >= -32768 then packed = '\209' .. two(65536 + value)
  elseif value >= -2147483648 then packed = '\210' .. four(4294967296 + value)
  else
    packed = '\211' .. four(4294967296 + floor(value / 4294967296)) .. four(value % 4294967296)
  end
  out[#out + 1] = packed
end

function packers.string(out, value)
  local size = #value
  if size < 32 then out[#out + 1] = char(160 + size)
  elseif size < 256 then out[#out + 1] = '\217' .. char(size)
  elseif size < 65536 then out[#out + 1] = '\218' .. two(size)
  else out[#out + 1] = '\219' .. four(size) end
  out[#out + 1] = value
end

function packers.table(out, value)
  local count, most = 0, 0
  for key in next, value do
    if type(key) ~= 'number' or key <= 0 or key ~= floor(key) then
      most = math.huge
      break
    end
    count = count + 1
    if key > most then most = key end
  end
  if most == count then
    if count < 16 then out[#out + 1] = char(144 + count)
    elseif count < 65536 then out[#out + 1] = '\220' .. two(count)
    else out[#out + 1] = '\221' .. four(count) end
    for i = 1, count do
      local item = value[i]
      packers[type(item)](out, item)
    end
    return
  end
  count = 0
  for _ in pairs(value) do count = count + 1 end
  if count < 16 then out[#out + 1] = char(128 + count) else out[#out + 1] = '\222' .. two(count) end
  for key, item in pairs(value) do
    pack_into(out, key)
    pack_into(out, item)
  end
end

local function read_integer(packed, from, size)
  if size == 1 then return byte(packed, from) end
  if size == 2 then
    local a, b = byte(packed, from, from + 1)
    return a * 256 + b
  end
  if size == 4 then
    local a, b, c, d = byte(packed, from, from + 3)
    return ((a * 256 + b) * 256 + c) * 256 + d
  end
  if size == 8 then
    local a, b, c, d, e, f, g, h = byte(packed, from, from + 7)
    return ((((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g) * 256 + h
  end
  local value = 0
  for i = from, from + size - 1 do value = value * 256 + byte(packed, i) end
  return value
end

local function read_float64(packed, from)
  local a, b = byte(packed, from, from + 1)
  local sign, exponent = a >= 128 and -1 or 1, (a % 128) * 16 + floor(b / 16)
  local mantissa = (b % 16) * 2 ^ 48 + read_integer(packed, from + 2, 6)
  if exponent == 0 then return sign * math.ldexp(mantissa, -1074) end
  if exponent == 2047 then return mantissa == 0 and sign * math.huge or 0 / 0 end
  return sign * math.ldexp(1 + mantissa / 2 ^ 52, exponent - 1023)
end

local function read_float32(packed, from)
  local a, b = byte(packed, from, from + 1)
  local sign, exponent = a >= 128 and -1 or 1, (a % 128) * 2 + floor(b / 128)
  local mantissa = (b % 128) * 65536 + read_integer(packed, from + 2, 2)
  if exponent == 0 then return sign * math.ldexp(mantissa, -149) end
  return sign * math.ldexp(1 + mantissa / 2 ^ 23, exponent - 127)
end

local read

local function read_list(packed, from, count)
  local list = {}
  for i = 1, count do list[i], from = read(packed, from) end
  return list, from
end

local function read_map(packed, from, count)
  local map, key = {}, nil
  for _ = 1, count do
    key, from = read(packed, from)
    map[key], from = read(packed, from)
  end
  return map, from
end

local readers = {
  [192] = function(_, from) return nil, from end,
  [194] = function(_, from) return false, from end,
  [195] = function(_, from) return true, from end,
  [202] = function(packed, from) return read_float32(packed, from), from + 4 end,
  [203] = function(packed, from) return read_float64(packed, from), from + 8 end,
  [208] = function(packed, from) return (byte(packed, from) + 128) % 256 - 128, from + 1 end,
  [209] = function(packed, from) return (read_integer(packed, from, 2) + 32768) % 65536 - 32768, from + 2 end,
  [210] = function(packed, from)
    return (read_integer(packed, from, 4) + 2147483648) % 4294967296 - 2147483648, from + 4
  end,
  [211] = function(packed, from)
    local high = (read_integer(packed, from, 4) + 2147483648) % 4294967296 - 2147483648
    return high * 4294967296 + read_integer(packed, from + 4, 4), from + 8
  end,
  [220] = function(packed, from) return read_list(packed, from + 2, read_integer(packed, from, 2)) end,
  [221] = function(packed, from) return read_list(packed, from + 4, read_integer(packed, from, 4)) end,
  [222] = function(packed, from) return read_map(packed, from + 2, read_integer(packed, from, 2)) end,
}
for head, size in pairs({ [204] = 1, [205] = 2, [206] = 4, [207] = 8 }) do
  readers[head] = function(packed, from) return read_integer(packed, from, size), from + size end
end
for first, size in pairs({ [196] = 1, [197] = 2, [198] = 4, [217] = 1, [218] = 2, [219] = 4 }) do
  readers[first] = function(packed, from)
    local length = read_integer(packed, from, size)
    from = from + size
    return sub(packed, from, from + length - 1), from + length
  end
end

function read(packed, from)
  local head = byte(packed, from)
  if not head then error('Missing bytes in input.') end
  if head < 128 then return head, from + 1 end
  if head >= 224 then return head - 256, from + 1 end
  if head >= 160 and head < 192 then return sub(packed, from + 1, from + head - 160), from + head - 159 end
  if head < 144 then return read_map(packed, from + 1, head - 128) end
  if head < 160 then return read_list(packed, from + 1, head - 144) end
  return readers[head](packed, from + 1)
end

cmsgpack = {}

function cmsgpack.pack(...)
  local out = {}
  for i = 1, select('#', ...) do pack_into(out, (select(i, ...))) end
  return concat(out)
end

function cmsgpack.unpack(packed)
  local values, count, from = {}, 0, 1
  while from <= #packed do
    count = count + 1
    values[count], from = read(packed, from)
  end
  return unpack(values, 1, count)
end

function cmsgpack.unpack_limit(packed, limit, offset)
  local values, count, from = {}, 0, (offset or 0) + 1
  while from <= #packed and count < limit do
    count = count + 1
    values[count], from = read(packed, from)
  end
  return from > #packed and -1 or from - 1, unpack(values, 1, count)
end

struct = {}

local steps_of = setmetatable({}, { __index = function(formats, text_)
  local steps = {}
  for kind, size in string.gmatch(sub(text_, 2), '([BbIic])(%d*)') do
    steps[#steps + 1] = { kind, (kind == 'B' or kind == 'b') and 1 or tonumber(size) }
  end
  formats[text_] = steps
  return steps
end })

function struct.pack(format_, ...)
  local out, steps = {}, steps_of[format_]
  for i = 1, #steps do
    local value, kind, size = select(i, ...), steps[i][1], steps[i][2]
    if kind == 'c' then
      out[i] = sub(value, 1, size)
    else
      value = tonumber(value)
      out[i] = integer(value < 0 and 256 ^ size + value or value % 256 ^ size, size)
    end
  end
  return concat(out)
end

function struct.unpack(format_, packed, from)
  local steps, values = steps_of[format_], {}
  from = from or 1
  for i = 1, #steps do
    local kind, size = steps[i][1], steps[i][2]
    if from + size - 1 > #packed then error('data string too short') end
    if kind == 'c' then
      values[i] = sub(packed, from, from + size - 1)
    else
      local value = read_integer(packed, from, size)
      if (kind == 'b' or kind == 'i') and value >= 256 ^ size / 2 then value = value - 256 ^ size end
      values[i] = value
    end
    from = from + size
  end
  values[#steps + 1] = from
  return unpack(values, 1, #steps + 1)
end

-- the interface of the simulation

local server = {}

local function copied(data)
  local copy = {}
  for name, key in pairs(data) do
    local value = key.value
    if type(value) == 'table' then
      value = {}
      for field, item in pairs(key.value) do value[field] = item end
    end
    copy[name] = { kind = key.kind, value = value }
  end
  return copy
end

function server.snapshot() return copied(keys) end
function server.restore(data) keys = copied(data) end
function server.clear() keys = {} end
function server.forget_functions() functions = {} end

-- the outcome of a call: 0 and an error, 1 and a single value, or 2, the length of a list and its members
local function outcome(is_done, reply, place)
  if is_done then
    if type(reply) ~= 'table' then return 1, reply end
    if reply.ok then return 1, reply.ok end
    return 2, #reply, unpack(reply)
  end
  return 0, (type(reply) == 'table' and reply.err or reply) .. place
end

function server.fcall(name, count, ...)
  local callback = functions[name]
  if not callback then return 0, 'ERR Function not found' end
  clock_number = 0
  local names, rest
  if count == 1 then
    names, rest = { (...) }, { select(2, ...) }
  else
    local args = { ... }
    names, rest = { unpack(args, 1, count) }, { unpack(args, count + 1) }
  end
  local is_done, reply = pcall(callback, names, rest)
  return outcome(is_done, reply, is_done or ' script: ' .. name .. ', on @user_function:1.')
end

function server.command(name, ...)
  local is_done, reply = pcall(commands[name], ...)
  return outcome(is_done, reply, '')
end

return server
