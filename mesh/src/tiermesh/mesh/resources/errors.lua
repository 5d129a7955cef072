-- Gives every HTTP failure the body of an OpenAI error. gRPC callers are never touched: their failures are HTTP 200.
-- ROWS is put before this text: {[status] = {type, code, advice}}.

local function row_of(status)
  return ROWS[status] or (status >= 500 and ROWS[500]) or ROWS[400]
end

local function quoted(text)
  local escaped = string.gsub(text, '[%c"\\\127]', function(c)
    if c == '"' or c == "\\" then return "\\" .. c end
    if string.byte(c) < 32 or string.byte(c) == 127 then return string.format("\\u%04x", string.byte(c)) end
    return c
  end)
  return '"' .. escaped .. '"'
end

-- Returns the JSON string that follows `"key":`, quotes and escapes included, or nil.
local function json_string(body, key)
  local _, start = string.find(body, '"' .. key .. '"%s*:%s*"')
  if start == nil then return nil end
  local at = start + 1
  while at <= #body do
    local c = string.sub(body, at, at)
    if c == "\\" then
      at = at + 1
    elseif c == '"' then
      return string.sub(body, start, at)
    end
    at = at + 1
  end
  return nil
end

local function openai_error(status, body, explained)
  local row = row_of(status)
  local message, param, code
  if string.sub(body, 1, 1) == "{" then
    -- google.rpc.Status, as the transcoder writes it.
    message, param, code = json_string(body, "message"), json_string(body, "field"), json_string(body, "reason")
    if message == '""' then message = nil end
  elseif explained ~= nil then
    -- A gRPC status whose details the transcoder could not write as JSON.
    local text = string.gsub(explained, "%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end)
    message = quoted(text)
  elseif body ~= "" then
    -- What Envoy says itself. The transcoder begins with the field at fault, and may repeat bytes of the request that
    -- are no UTF-8.
    local text = string.gsub(string.gsub(string.sub(body, 1, 300), "%s+", " "), "[\128-\255]+", "?")
    local field = string.match(text, "^([%a_][%w_%.%[%]]*): ")
    param = field and quoted(field)
    message = quoted(row[3] .. " (" .. text .. ")")
  end
  return string.format('{"error":{"message":%s,"type":%s,"param":%s,"code":%s}}',
    message or quoted(row[3]), quoted(row[1]), param or "null", code or quoted(row[2]))
end

function envoy_on_request(handle)
  if handle:headers():get(":method") == "HEAD" then
    handle:streamInfo():dynamicMetadata():set("tiermesh.errors", "head", true)
  end
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local status = tonumber(headers:get(":status")) or 0
  if status < 400 or string.sub(headers:get("content-type") or "", 1, 16) == "application/grpc" then
    return
  end
  if status == 408 then
    -- Envoy's word for a deadline that passed before the whole request was read.
    status = 504
    headers:replace(":status", "504")
  elseif status == 499 then
    -- The transcoder's word for gRPC's CANCELLED. A caller who is here to read it cancelled nothing: the service
    -- stopped while it had the call, and asking again is right.
    status = 503
    headers:replace(":status", "503")
  end
  local ready, explained = headers:get("x-openai-error"), headers:get("grpc-message")
  -- Before the body is asked for: headers cannot be changed after that.
  headers:replace("content-type", "application/json")
  for _, name in ipairs({"x-openai-error", "grpc-message", "grpc-status", "grpc-status-details-bin"}) do
    headers:remove(name)
  end
  local noted = handle:streamInfo():dynamicMetadata():get("tiermesh.errors")
  if noted ~= nil and noted["head"] then
    -- An answer to HEAD has no body; one would be read as the start of the next answer.
    return
  end
  local buffer = handle:body(true)
  local body = buffer:length() > 0 and buffer:getBytes(0, buffer:length()) or ""
  if ready ~= nil or string.sub(body, 1, 9) ~= '{"error":' then
    -- Sets content-length, too.
    buffer:setBytes(ready or openai_error(status, body, explained))
  end
end
