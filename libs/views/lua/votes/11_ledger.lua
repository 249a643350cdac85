-- Reading a partition's ledger page by page, each page with the position at which it is exactly so: for comparing
-- it with another fold while votes come in. What the pages hold: see the head of 01_records.lua and views/ledger.py.

-- ARGV: a hash of the contest ("voters", "spill", ...), contest, cursor ('0' to begin), how many entries about,
-- generation ('' the live one). {log, offset, next cursor ('0' at the end), {field, value, ...} as stored}
read('votes_page', function(keys, args)
  local views = view(keys[1], args[5])
  local log, offset = position(views)
  local page = call('HSCAN', views .. ':' .. args[1] .. ':' .. args[2], args[3], 'COUNT', args[4])
  return pack({ log, offset, page[1], page[2] })
end)
