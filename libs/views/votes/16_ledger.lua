-- Pages through a partition's ledger, each page with its exact position, to compare it with another fold during
-- voting. Format of the pages: see the head of 01_records.lua and views/votes/ledger_scan.py.
-- A member of the timeline is split into a field and, after it, its value.

local function members_as_fields(scanned)
  for i = 1, #scanned, 2 do
    local member = scanned[i]
    local size = 8
    local kind = string.sub(member, 1, 1)
    if kind == 's' then size = string.find(member, '\0', 1, true) + 4 end
    if kind == 'f' then size = struct.unpack('>I4', member, 2) + 9 end
    scanned[i], scanned[i + 1] = string.sub(member, 1, size), string.sub(member, size + 1)
  end
  return scanned
end

-- ARGV: a part of the contest's views ("voters", "minutes", ...), contest, cursor ('0' to begin), how many entries about,
-- generation ('' the live one). {log, offset, next cursor ('0' at the end), {field, value, ...} as stored}
library.register_read('votes_page', function(keys, args)
  local views = view(keys[1], args[5])
  local log, offset = position(views)
  local is_timeline = args[1] == 'minutes'
  local key = views .. ':' .. args[1] .. ':' .. args[2]
  local page = call(is_timeline and 'ZSCAN' or 'HSCAN', key, args[3], 'COUNT', args[4])
  return pack({ log, offset, page[1], is_timeline and members_as_fields(page[2]) or page[2] })
end)
