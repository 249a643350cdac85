-- Bytes of a vote's record. Its first byte has the flags and the form: index and count take a byte each or three, what remains a
-- byte each or four, and next free vote and allowance period eleven together or none.

local vote_records = { SHORTEST = 37 }  -- functions, and the bytes of the shortest record

do
  local FORM = 2 * DETAILED
  local FORMATS, SIZES = {}, {}  -- by the first byte
  for long_choice = 0, 1 do
    for long_rest = 0, 1 do
      for renews = 0, 1 do
        for flags = 0, FORM - 1 do
          local head = flags + FORM * (long_choice + 2 * long_rest + 4 * renews)
          FORMATS[head] = '>Bc12c8I7I5' .. (long_choice == 1 and 'I3I3' or 'BB') .. (long_rest == 1 and 'i4i4' or 'bb')
            .. (renews == 1 and 'I7I4' or '')
          SIZES[head] = vote_records.SHORTEST + 4 * long_choice + 6 * long_rest + 11 * renews
        end
      end
    end
  end

  function vote_records.pack(flags, digest, content, at, offset, index, count, rem_p, rem_c, next_at, epoch)
    local head = flags
    if index > 255 or count > 255 then head = head + FORM end
    if rem_p > 127 or rem_c > 127 then head = head + 2 * FORM end
    if next_at > 0 or epoch > 0 then head = head + 4 * FORM end
    return struct.pack(FORMATS[head], head, digest, content, at, offset, index, count, rem_p, rem_c, next_at, epoch)
  end

  local function members(head, digest, content, at, offset, index, count, rem_p, rem_c, next_at, epoch)
    if head < 4 * FORM then next_at, epoch = 0, 0 end
    return head % FORM, digest, content, at, offset, index, count, rem_p, rem_c, next_at, epoch
  end

  -- the members as they were packed, of the record at the beginning
  function vote_records.unpack(record) return members(struct.unpack(FORMATS[string.byte(record)], record)) end

  -- the size of the record that begins at an index
  function vote_records.size(records, at) return SIZES[string.byte(records, at)] end
end

function vote_records.digest(record) return string.sub(record, 2, 1 + DIGEST_SIZE) end

-- Form under a name that ends with the record's digest, which it leaves out; and the record with it again.
function vote_records.spilled(record) return string.sub(record, 1, 1) .. string.sub(record, 2 + DIGEST_SIZE) end

function vote_records.restored(spilled, digest) return string.sub(spilled, 1, 1) .. digest .. string.sub(spilled, 2) end

function vote_records.at(records, at) return string.sub(records, at, at + vote_records.size(records, at) - 1) end

-- indexes at which the records begin
function vote_records.starts(records)
  local starts, at = {}, 1
  while at <= #records do
    starts[#starts + 1] = at
    at = at + vote_records.size(records, at)
  end
  return starts
end

-- the index of a vote id's record, or nil
function vote_records.index(records, digest)
  if not string.find(records, digest, 1, true) then return nil end
  local at = 1
  while at <= #records do
    if string.sub(records, at + 1, at + DIGEST_SIZE) == digest then return at end
    at = at + vote_records.size(records, at)
  end
end

-- the record of a vote id, or nil
local function find_record(views, contest, voter, standing, digest)
  local at = vote_records.index(standing.records, digest)
  if at then return vote_records.at(standing.records, at) end
  if standing.spilled == '' then return nil end
  local spilled = call('HGET', views .. ':spill:' .. contest, voter .. digest)
  return spilled and vote_records.restored(spilled, digest) or nil
end
