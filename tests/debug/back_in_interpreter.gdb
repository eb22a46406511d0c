# Steps back from the end of an interpreted program: an interpreter makes many calls, and comes to each of its instructions all the time.
# program: interpreted.py
# modes: hooks no-hooks software
continue
#> ends here
python end = gdb.convenience_variable("_bis_place").string()
python pc = int(gdb.parse_and_eval("$pc"))
reverse-stepi
python before = (int(gdb.parse_and_eval("$pc")), int(gdb.parse_and_eval("$rsp")))
reverse-stepi 40
python print("before", int(gdb.parse_and_eval("$pc")) != before[0])
#> before True
stepi 40
python print("same", before == (int(gdb.parse_and_eval("$pc")), int(gdb.parse_and_eval("$rsp"))))
#> same True
stepi
python print("there", pc == int(gdb.parse_and_eval("$pc")))
#> there True
