-- Admission of removals: pending as votes are, so that a contest's close waits for them.

local M_GRANTED, M_UNKNOWN, M_PENDING, M_NOT_COUNTED, M_PAID = 0, 10, 11, 12, 13

-- Returns whether a pending vote was admitted because it replaces this one: after a removal it would not replace it.
local function replaced_soon(c, standing, list, digest)
  for i = 1, #list do
    local p = list[i]
    if p[P_SLOT] and holder(c, standing, p[P_SLOT], p[P_SOURCE]) == digest then return true end
  end
  return false
end

-- ARGV: packed {contest, voter, digest, configuration version, from, till (us), reopened (as of reserve), refused, refund:
-- {anonymous, content hash, source} of the vote, which may never have come, or false from its voter}. A voter's removal
-- is judged as a vote is; a refund is not, and may come at any time.
library.register('votes_remove', function(keys, args)
  local base = keys[1]
  local r = unpack_one(args[1])
  local contest, voter, digest, version, from, till, reopened, refused, refund = r[1], r[2], r[3], r[4], r[5], r[6],
    r[7], r[8], r[9]
  local views, gate = view(base), load_gate(base)
  if not gate.open then return pack({ R_SHUT }) end
  local now = next_moment(gate)
  local c = contest_view(base, views, contest, { voter })
  local standing = c:standing(voter)
  local record = find_record(views, contest, voter, standing, digest)
  local field = pending_field(contest, voter)
  local pending = open_pending(base, { field })
  local list = pending:list(field)
  if find_pending(list, digest) then return pack({ M_PENDING }) end
  if not record and not refund then return pack({ M_UNKNOWN }) end
  local anonymous, content, source, offset = standing.anonymous, nil, nil, UNLIMITED
  if record then
    local flags, _, hash, _, where = vote_records.unpack(record)
    content, source, offset = hash, flags % 2, where
    local status = status_of(flags)
    local removable = status == COUNTED or (status == VOIDED and (refund or find_pending(list, REMOVAL .. digest)))
    if not removable then return pack({ M_NOT_COUNTED, status, offset }) end
    if replaced_soon(c, standing, list, digest) then return pack({ M_PENDING }) end
  else
    anonymous, content, source = refund[1], refund[2], refund[3]
  end
  if not refund and source ~= FREE then return pack({ M_PAID }) end
  local removing = find_pending(list, REMOVAL .. digest)
  if not refund and not removing then
    if c.in_force ~= version then return pack({ R_STALE, c.in_force, gate.n }) end
    if from == UNLIMITED or now < from or (till ~= UNLIMITED and now >= till) then return pack({ R_NOT_RUNNING, now }) end
    if reopened > 0 and c:reopened() < reopened then return pack({ R_SHUT }) end
    if refused then return pack({ R_REFUSED, now }) end
  end
  if removing then
    removing[P_ATTEMPTS] = removing[P_ATTEMPTS] + 1
    pending:touch(field)
    now = removing[P_AT]
  else
    pending:add(field, { REMOVAL .. digest, content, NO_SOURCE, 0, now, 0, 0, 0, 0, 1, version, 0, 0, PLAIN, {}, false })
    call('HSET', base .. ':gate', 'clock', string.format('%.0f', now))
    library.note_reservation(base, now)
  end
  pending:close()
  return pack({ M_GRANTED, now, gate.n, anonymous, content, source, offset })
end)
