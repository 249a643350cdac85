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

-- ARGV: contest, minute, generation ('' the live one). What votes_counts answered at the end of that minute, but for the
-- position, which is that of now.
read('votes_counts_at', function(keys, args)
  local views, contest, minute = view(keys[1], args[3]), args[1], tonumber(args[2])
  local key, changed, rows, ratings, sources = views .. ':minutes:' .. contest, UNLIMITED, {}, {}, {}
  local flat = call('HGETALL', views .. ':counts:' .. contest)
  for i = 1, #flat, 2 do
    local name, cells, rating = flat[i], unpack_one(flat[i + 1]), nil
    local is_top = name == ''
    if (is_top and minute_of(cells[ROW_TIME]) or cells[ROW_MINUTE]) <= minute then
      rating = call('HGET', views .. ':ratings:' .. contest, name)
    else
      local kept = last_until(key, row_subject(is_top and 0 or cells[1]), minute)
      local both = kept and unpack_one(kept) or {}
      cells, rating = both[1], both[2]
    end
    if cells then rows[#rows + 1] = { name, cells } end
    if cells and is_top then changed = cells[ROW_OFFSET] end
    if rating and rating ~= '' then ratings[#ratings + 1] = { name, rating } end
  end
  flat = call('HGETALL', views .. ':sources:' .. contest)
  for i = 1, #flat, 2 do
    local name, packed = flat[i], flat[i + 1]
    if unpack_one(packed)[S_MINUTE] > minute then packed = last_until(key, source_subject(name), minute) end
    if packed then sources[#sources + 1] = { name, packed } end
  end
  local log, offset = position(views)
  return pack({ log, offset, changed, generations.swaps(keys[1]), rows, ratings, sources })
end)
