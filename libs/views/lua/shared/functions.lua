-- Registration of functions. During an upgrade processes of two versions run, so libraries of both are loaded: the name of
-- each function ends with the version, the hash of all sources (function_libraries.py).

-- Uses of this library since the server loaded it. A version that no process uses any more is deleted (function_expiry.py).
library.uses = 0

function library.register(name, callback) redis.register_function(name .. '_' .. library.version, callback) end

function library.register_read(name, callback)
  redis.register_function({ function_name = name .. '_' .. library.version, callback = callback, flags = { 'no-writes' } })
end

-- Returns the error that a reply has for what `pcall` caught. That is mostly its text: of a raised table Valkey keeps `err`.
function library.error_reply(caught) return { err = type(caught) == 'table' and caught.err or caught } end

-- Registers a read of several partitions whose keys lie on this server, in whichever slots: that in KEYS[1], and those of
-- which ARGV has the bases. Returns the results of `callback(base, memo)`, each partition's error in place of its
-- result; `memo` is empty at first, and the same for all of them.
function library.register_read_each(name, callback)
  local function try(base, memo)
    local is_done, result = pcall(callback, base, memo)
    if is_done then return result end
    return library.error_reply(result)
  end

  redis.register_function({ function_name = name .. '_' .. library.version, callback = function(keys, args)
    local memo = {}
    local results = { try(keys[1], memo) }
    for i = 1, #args do results[i + 1] = try(args[i], memo) end
    return results
  end, flags = { 'no-writes', 'allow-cross-slot-keys' } })
end
