# A watchpoint stays where a library is left behind that only has a variable of the same name. One on the library's own comes back as it
# was, and does not where it was deleted meanwhile.
# program: loads_member.c
# library: plugin.c
# args: {library}
break loaded
continue
#> loaded ()
watch counts.plugin_calls
seek start
info breakpoints
#> hw watchpoint
#> counts.plugin_calls
continue
continue
#> Hardware watchpoint 2: counts.plugin_calls
#> New value = 1
delete
watch plugin_calls
ignore $bpnum 1
seek start
info breakpoints
#> ! plugin_calls
#> No breakpoints
break loaded
continue
#> loaded ()
continue
#> plugin_calls
#> New value = 2
seek start
delete
break loaded
continue
#> loaded ()
info breakpoints
#> ! plugin_calls
#> loaded
