#!/usr/bin/python3
# Signals as python has them: handlers between bytecodes, setitimer, wakeup descriptor, subprocess killed, EINTR retried.
import os, select, signal, subprocess, time

got = []
signal.signal(signal.SIGUSR1, lambda s, f: got.append(s))
os.kill(os.getpid(), signal.SIGUSR1)
while not got:
    time.sleep(0.001)
ticks = []
signal.signal(signal.SIGALRM, lambda s, f: ticks.append(time.monotonic_ns()))
# With checksums an event takes milliseconds: a timer faster than that interrupts its own handler for ever.
signal.setitimer(signal.ITIMER_REAL, 0.005, 0.03)
while len(ticks) < 5:
    select.select([], [], [], 0.01)
signal.setitimer(signal.ITIMER_REAL, 0)
r, w = os.pipe()
os.set_blocking(w, False)
signal.set_wakeup_fd(w)
os.kill(os.getpid(), signal.SIGUSR1)
assert os.read(r, 10) == bytes([signal.SIGUSR1])
signal.set_wakeup_fd(-1)
child = subprocess.Popen(["sleep", "100"])
child.send_signal(signal.SIGTERM)
assert child.wait() == -signal.SIGTERM
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
os.kill(os.getpid(), signal.SIGUSR2)
assert signal.sigtimedwait([signal.SIGUSR2], 5).si_pid == os.getpid()
print(ticks, child.pid)
print("guest ok")
