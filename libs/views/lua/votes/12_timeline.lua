-- The timeline: what a contest was at the end of any minute. A row, and an external source, says in which minute it last
-- changed; what it was before lies in `minutes:<contest>`, all members with score 0, so in the order of their bytes:
-- subject, minute since 1970 (I4), and packed {cells, packed rating or ''} of a row, or the source as it is stored.
-- One is added when its subject first changes in a later minute, and never changes. The contest's own row is 0.

-- what the subject was at the end of the minute, packed; nil before it first changed
local function last_until(key, subject, minute)
  local below = '(' .. subject .. struct.pack('>I4', minute + 1)
  local found = call('ZREVRANGEBYLEX', key, below, '[' .. subject, 'LIMIT', 0, 1)[1]
  return found and string.sub(found, #subject + 5)
end

-- ARGV: contest, minute, generation ('' the live one), subjects: 'r' and a participant ('' contest), 's' and an external
-- source. What votes_counts answered of these at the end of that minute, but for the position, which is that of now.
read('votes_counts_at', function(keys, args)
  local views, contest, minute = view(keys[1], args[3]), args[1], tonumber(args[2])
  local key, changed, rows, ratings, sources = views .. ':minutes:' .. contest, UNLIMITED, {}, {}, {}
  for i = 4, #args do
    local kind, name = string.sub(args[i], 1, 1), string.sub(args[i], 2)
    local packed = call('HGET', views .. (kind == 's' and ':sources:' or ':counts:') .. contest, name)
    local stored = packed and unpack_one(packed)
    if stored and kind == 's' then
      if stored[S_MINUTE] > minute then packed = last_until(key, source_subject(name), minute) end
      if packed then sources[#sources + 1] = { name, packed } end
    elseif stored then
      local is_top, rating = name == '', nil
      if (is_top and minute_of(stored[ROW_TIME]) or stored[ROW_MINUTE]) <= minute then
        rating = call('HGET', views .. ':ratings:' .. contest, name)
      else
        local kept = last_until(key, row_subject(is_top and 0 or stored[1]), minute)
        local both = kept and unpack_one(kept) or {}
        stored, rating = both[1], both[2]
        packed = stored and pack(stored)
      end
      if packed then rows[#rows + 1] = { name, packed } end
      if packed and is_top then changed = stored[ROW_OFFSET] end
      if rating and rating ~= '' then ratings[#ratings + 1] = { name, rating } end
    end
  end
  local log, offset = position(views)
  return pack({ log, offset, changed, generations.swaps(keys[1]), rows, ratings, sources })
end)

-- ARGV: contest, generation. The first minute in which the contest changed (-1: none).
read('votes_first_minute', function(keys, args)
  local views, contest = view(keys[1], args[2]), args[1]
  local key = views .. ':minutes:' .. contest
  local first = call('ZRANGEBYLEX', key, '[' .. row_subject(0), '(' .. row_subject(1), 'LIMIT', 0, 1)[1]
  if first then return (struct.unpack('>I4', first, 5)) end
  local packed = call('HGET', views .. ':counts:' .. contest, '')
  local top = packed and unpack_one(packed)
  return top and top[ROW_OFFSET] >= 0 and minute_of(top[ROW_TIME]) or UNLIMITED
end)

local PAGE_MEMBERS, PAGE_BYTES = 200, 16384

-- ARGV: contest, generation, first minute, minute behind the last, minutes in an interval, minute from which on the first
-- subject is asked for, subjects: 'r' and a participant ('' contest), 's' and an external source. {log, offset, minute
-- to go on from within the last of these (-1: it is complete), {minute, what the subject was at its end, packed, ...},
-- ...}: of subjects as far as one page holds, in minutes in which they changed, the last such of each interval.
read('votes_changes', function(keys, args)
  local views, contest = view(keys[1], args[2]), args[1]
  local from, to, per, since = tonumber(args[3]), tonumber(args[4]), tonumber(args[5]), tonumber(args[6])
  local key, members, bytes = views .. ':minutes:' .. contest, 0, 0
  local log, offset = position(views)
  local reply = { log, offset, UNLIMITED }
  for i = 7, #args do
    local kind, name, list, latest, subject = string.sub(args[i], 1, 1), string.sub(args[i], 2), {}, UNLIMITED, nil
    local packed = call('HGET', views .. (kind == 's' and ':sources:' or ':counts:') .. contest, name)
    local stored = packed and unpack_one(packed)
    if stored and kind == 's' then
      subject, latest = source_subject(name), stored[S_MINUTE]
    elseif stored then
      subject, packed = row_subject(name == '' and 0 or stored[1]), pack({ stored, '' })
      latest = name == '' and minute_of(stored[ROW_TIME]) or stored[ROW_MINUTE]
    end
    reply[#reply + 1] = list
    if subject then
      local low, high = subject .. struct.pack('>I4', since), subject .. struct.pack('>I4', to)
      local kept = call('ZRANGEBYLEX', key, '[' .. low, '(' .. high, 'LIMIT', 0, PAGE_MEMBERS - members)
      local minute
      for k = 1, #kept do
        local its = struct.unpack('>I4', kept[k], #subject + 1)
        if minute and math.floor(its / per) == math.floor(minute / per) then list[#list], list[#list - 1] = nil, nil end
        minute = its
        list[#list + 1], list[#list + 2] = minute, string.sub(kept[k], #subject + 5)
        members, bytes = members + 1, bytes + #kept[k]
        if members == PAGE_MEMBERS or bytes > PAGE_BYTES then
          reply[3] = minute + 1
          return pack(reply)
        end
      end
      if since <= latest and latest < to then list[#list + 1], list[#list + 2] = latest, packed end
    end
    since = from
  end
  return pack(reply)
end)
