-- Refuses a body that says it is too large, but only once all of it has come. Answering earlier makes Envoy close the
-- connection while the caller is still writing, and most clients then report a reset instead of reading their 413.
-- Bodies of unknown length are bounded by the transcoder, at once.
--
-- A deadline that is none is refused here, too: taken for none, its caller would wait a minute instead of the 2 s they meant.
--
-- It is also the last script that sees what the caller sent: past it, Envoy has written its default deadline in. So it
-- notes who sent none; the router may have a shorter default of its own for them, by the kind of request.
function envoy_on_request(handle)
  local headers = handle:headers()
  local timeout = headers:get("grpc-timeout")
  if timeout ~= nil and (#timeout > 9 or not string.match(timeout, "^%d+[HMSmun]$")) then
    handle:respond({[":status"] = "400"}, "grpc-timeout: must be up to 8 digits and one of H, M, S, m, u, n, such as 500m")
    return
  end
  if timeout ~= nil and string.match(timeout, "^0+[HMSmun]$") then
    -- Over before it begins. Envoy's own timer would only race with the answer.
    handle:respond({[":status"] = "504"}, "the deadline had passed")
    return
  end
  headers:replace("x-tiermesh-deadline", timeout and "sent" or "default")
  local limit = handle:filterContext():get("max_request_bytes")
  local size = tonumber(headers:get("content-length") or "0")
  if limit ~= nil and size ~= nil and size > limit then
    handle:body()
    handle:respond({[":status"] = "413"}, string.format("%.0f bytes; at most %.0f", size, limit))
  end
end
