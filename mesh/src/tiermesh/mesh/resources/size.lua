-- Refuses a body that says it is too large, but only once all of it has come. Answering earlier makes Envoy close the
-- connection while the caller is still writing, and most clients then report a reset instead of reading their 413.
-- Bodies of unknown length are bounded by the transcoder, at once.
function envoy_on_request(handle)
  local limit = handle:filterContext():get("max_request_bytes")
  local size = tonumber(handle:headers():get("content-length") or "0")
  if limit ~= nil and size ~= nil and size > limit then
    handle:body()
    handle:respond({[":status"] = "413"}, string.format("%.0f bytes; at most %.0f", size, limit))
  end
end
