# A session with each of the traces.
break handler
continue
continue
print signal
watch handled
continue
reverse-continue
delete
break thread
continue
info threads
reverse-stepi
seek end
when
