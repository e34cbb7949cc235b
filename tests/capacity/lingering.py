"""A worker that says all it has to say, closes its output, and does not end."""

import os
import time

print('{"answer": 1}', flush=True)
os.close(1)
time.sleep(60)
