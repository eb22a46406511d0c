"""A debuginfod server of one folder, for gdb: it writes its address to a file, and ends when the process that is named has ended.
usage: debuginfod.py FOLDER ADDRESS_FILE PID"""
import functools, http.server, os, sys, threading, time

folder, address_file, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
with open(address_file + ".new", "w") as file:
    file.write("set debuginfod urls http://127.0.0.1:%d\n" % server.server_port)
os.rename(address_file + ".new", address_file)
threading.Thread(target=server.serve_forever, daemon=True).start()
while os.path.exists("/proc/%d" % pid):
    time.sleep(0.2)
