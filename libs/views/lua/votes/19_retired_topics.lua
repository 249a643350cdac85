-- Gates of partitions whose topic was retired: its log has ended, so no doubt about it remains.

-- ARGV: log id and end offset. Opens the gate in this run without a fence once the view is at the end: what was pending
-- then is not in the log and never will be. The contests there are sealed, so nothing is admitted; voters read their votes.
-- 1: open, 0: the view is not at the end.
library.register('votes_open_retired', function(keys, args)
  local base = keys[1]
  local views, gate = view(base), load_gate(base)
  local log, offset = position(views)
  if log ~= args[1] or offset < tonumber(args[2]) then return 0 end
  if gate.open then return 1 end
  library.note_change('gates', base)
  local folded = tonumber(call('GET', views .. ':fence') or 0)
  local n = math.max(gate.n + 1, folded + 1, gate.asked + 1, math.floor(microseconds() / 1000))
  call('UNLINK', base .. ':pending', base .. ':due', base .. ':config', base .. ':floors', base .. ':needs')
  call('HSET', base .. ':gate', 'state', 'open', 'run', gate.run, 'n', string.format('%.0f', n))
  return 1
end)
