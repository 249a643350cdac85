-- The timeline: a contest's counts at the end of any minute. A row, an external source, and the figures of each of its ids
-- hold the minute of their last change; their former values are in `minutes:<contest>`, all members with score 0, so in
-- the order of their bytes: subject, minute since 1970 (I4), and packed {cells, packed rating or ''} of a row, or the source
-- or figures as they are stored. One is added when its subject first changes in a later minute, and never changes. The
-- contest's own row is 0. Held figures may be released in a minute of their own.

-- the packed value of the subject at the end of the minute; nil before its first change
local function last_until(key, subject, minute)
  local below = '(' .. subject .. struct.pack('>I4', minute + 1)
  local found = call('ZREVRANGEBYLEX', key, below, '[' .. subject, 'LIMIT', 0, 1)[1]
  return found and string.sub(found, #subject + 5)
end

local HASHES = { r = ':counts:', s = ':sources:', f = ':figures:' }

-- a requested subject: its kind, its name, how it is stored, packed and unpacked (nil while there is nothing)
local function asked(views, contest, arg)
  local kind, name = string.sub(arg, 1, 1), string.sub(arg, 2)
  local packed = call('HGET', views .. HASHES[kind] .. contest, name)
  return kind, name, packed, packed and unpack_one(packed)
end

-- ARGV: contest, minute, generation ('' the live one), subjects: 'r' and a participant ('' contest), 's' and an external
-- source, 'f' and an external source NUL its id. The reply of votes_counts at the end of that minute, except for
-- the position, which is the current one.
library.register_read('votes_counts_at', function(keys, args)
  local views, contest, minute = view(keys[1], args[3]), args[1], tonumber(args[2])
  local key, changed, rows, ratings = views .. ':minutes:' .. contest, UNLIMITED, {}, {}
  local sources, fields, figures = {}, {}, {}
  for i = 4, #args do
    local kind, name, packed, stored = asked(views, contest, args[i])
    if stored and kind ~= 'r' then
      local subject = kind == 's' and source_subject(name) or figures_subject(name)
      if stored[kind == 's' and S_MINUTE or F_MINUTE] > minute then packed = last_until(key, subject, minute) end
      if packed and kind == 's' then sources[#sources + 1], sources[#sources + 2] = name, packed end
      if packed and kind == 'f' then fields[#fields + 1], figures[#figures + 1] = name, packed end
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
      if packed then rows[#rows + 1], rows[#rows + 2] = name, packed end
      if packed and is_top then changed = stored[ROW_OFFSET] end
      if rating and rating ~= '' then ratings[#ratings + 1], ratings[#ratings + 2] = name, rating end
    end
  end
  local log, offset = position(views)
  return pack({ log, offset, changed, generations.swaps(keys[1]), rows, ratings, sources, fields, figures, 0, 0, 0, '' })
end)

-- ARGV: contest, generation. The first minute in which the contest changed (-1: none).
library.register_read('votes_first_minute', function(keys, args)
  local views, contest = view(keys[1], args[2]), args[1]
  local key = views .. ':minutes:' .. contest
  local first = call('ZRANGEBYLEX', key, '[' .. row_subject(0), '(' .. row_subject(1), 'LIMIT', 0, 1)[1]
  if first then return (struct.unpack('>I4', first, 5)) end
  local top = top_of(views, contest)
  return (top[ROW_OFFSET] or UNLIMITED) >= 0 and minute_of(top[ROW_TIME]) or UNLIMITED
end)

local PAGE_MEMBERS, PAGE_BYTES = 200, 16384

-- The minute in which the held part of these figures, packed, was released, and the figures since then: if that is before
-- the minute of their next change.
local function released(views, contest, name, packed, before)
  local f = unpack_one(packed)
  if not f[F_HELD] then return end
  local field = release_field(string.match(name, '^[^%z]*'), f[F_HELD][HELD_RELEASES] + 1)
  local minute = tonumber(call('HGET', views .. ':releases:' .. contest, field) or before)
  if minute < before then return minute, pack(take_held(f)) end
end

-- ARGV: contest, generation, first minute, minute after the last, minutes in an interval, minute from which on the first
-- subject is requested, subjects: 'r' and a participant ('' contest), 'f' and an external source NUL its id. {log, offset,
-- minute to go on from within the last of these (-1: it is complete), {minute, the subject at its end, packed,
-- ...}, ...}: of subjects as far as one page holds, in minutes in which they changed, the last such of each interval.
library.register_read('votes_changes', function(keys, args)
  local views, contest = view(keys[1], args[2]), args[1]
  local from, to, per, since = tonumber(args[3]), tonumber(args[4]), tonumber(args[5]), tonumber(args[6])
  local key, members, bytes = views .. ':minutes:' .. contest, 0, 0
  local log, offset = position(views)
  local reply = { log, offset, UNLIMITED }
  for i = 7, #args do
    local kind, name, packed, stored = asked(views, contest, args[i])
    local list, minute, latest, subject = {}, nil, nil, nil

    -- false once the page is full
    local function add(its, value)
      if its < since or its >= to then return true end
      if minute and math.floor(its / per) == math.floor(minute / per) then list[#list], list[#list - 1] = nil, nil end
      minute = its
      list[#list + 1], list[#list + 2] = minute, value
      members, bytes = members + 1, bytes + #value
      reply[3] = minute + 1
      return members < PAGE_MEMBERS and bytes <= PAGE_BYTES
    end

    -- the same, and a release before the next change
    local function add_both(its, value, following)
      if not add(its, value) then return false end
      if kind == 'r' then return true end
      local at, since_then = released(views, contest, name, value, following)
      return not at or add(at, since_then)
    end

    if stored and kind == 'f' then
      subject, latest = figures_subject(name), stored[F_MINUTE]
    elseif stored then
      subject, packed = row_subject(name == '' and 0 or stored[1]), pack({ stored, '' })
      latest = name == '' and minute_of(stored[ROW_TIME]) or stored[ROW_MINUTE]
    end
    reply[#reply + 1] = list
    if subject then
      local low, high = subject .. struct.pack('>I4', since), subject .. struct.pack('>I4', to)
      local kept = kind == 'f' and call('ZREVRANGEBYLEX', key, '(' .. low, '[' .. subject, 'LIMIT', 0, 1) or {}
      local later = call('ZRANGEBYLEX', key, '[' .. low, '(' .. high, 'LIMIT', 0, PAGE_MEMBERS - members)
      for k = 1, #later do kept[#kept + 1] = later[k] end
      local function minute_at(k) return kept[k] and struct.unpack('>I4', kept[k], #subject + 1) or latest end
      for k = 1, #kept do
        if not add_both(minute_at(k), string.sub(kept[k], #subject + 5), minute_at(k + 1)) then return pack(reply) end
      end
      if not add_both(latest, packed, to) then return pack(reply) end
    end
    since, reply[3] = from, UNLIMITED
  end
  return pack(reply)
end)
