-- Registration of functions. During an upgrade processes of two versions run, so libraries of both are loaded: the name of
-- each function ends with the version, the hash of all sources (function_libraries.py).

function library.register(name, callback) redis.register_function(name .. '_' .. library.version, callback) end

function library.register_read(name, callback)
  redis.register_function({ function_name = name .. '_' .. library.version, callback = callback, flags = { 'no-writes' } })
end

-- Returns the error that a reply has for what `pcall` caught. That is mostly its text: of a raised table Valkey keeps `err`.
function library.error_reply(caught) return { err = type(caught) == 'table' and caught.err or caught } end

-- Registers a read of several partitions whose keys lie on this server, in whichever slots: that in KEYS[1], and those of
-- which ARGV has the bases. Returns the results of `callback(base, memo)`, each partition's error in place of its
-- result; `memo` is empty at first, and the same for all of them. With `has_arguments` there is an argument in ARGV before the
-- first base and after each, of the partition before it: `callback(base, memo, argument)`.
function library.register_read_each(name, callback, has_arguments)
  local step = has_arguments and 2 or 1

  local function try(base, memo, argument)
    local is_done, result = pcall(callback, base, memo, argument)
    if is_done then return result end
    return library.error_reply(result)
  end

  redis.register_function({ function_name = name .. '_' .. library.version, callback = function(keys, args)
    local memo = {}
    local results = { try(keys[1], memo, args[1]) }
    for i = step, #args, step do results[#results + 1] = try(args[i], memo, args[i + 1]) end
    return results
  end, flags = { 'no-writes', 'allow-cross-slot-keys' } })
end
