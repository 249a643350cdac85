#!lua name=tally_ledger
-- Reading a partition's ledger page by page, each page with the position at which it is exactly so: for comparing
-- it with another fold while votes come in. What the pages hold: see the head of votes/01_records.lua and ledger.py.

-- KEYS[1]: base; ARGV: a hash of the contest ("voters", "spill", ...), contest, cursor ('0' to begin), how many entries about.
-- {log, offset, next cursor ('0' at the end), {field, value, ...} as stored}
redis.register_function({ function_name = 'ledger_page', flags = { 'no-writes' }, callback = function(keys, args)
  local views = keys[1] .. ':g1'
  local p = redis.call('HMGET', views .. ':position', 'log', 'offset')
  local page = redis.call('HSCAN', views .. ':' .. args[1] .. ':' .. args[2], args[3], 'COUNT', args[4])
  return cmsgpack.pack({ p[1] or '', tonumber(p[2] or 0), page[1], page[2] })
end })
