"""The longest time in which a server did not answer, in seconds: `outage.py URL FILE`, until the file is gone. Ten requests a second, each
on a connection of its own that is given one second."""

import http.client
import os
import ssl
import sys
import time
from urllib.parse import urlparse

url, file = urlparse(sys.argv[1]), sys.argv[2]
context = ssl._create_unverified_context()
last, longest, answered = None, 0.0, 0
while os.path.exists(file):
    connection = http.client.HTTPSConnection(url.hostname, url.port, timeout=1, context=context)
    try:
        connection.request("GET", url.path)
        good = connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        good = False
    finally:
        connection.close()
    now = time.monotonic()
    if good:
        answered += 1
        longest = max(longest, now - last) if last is not None else longest
        last = now
    time.sleep(0.1)
if last is None:
    sys.exit("nobody answered at any time")
longest = max(longest, time.monotonic() - last)
print(f"{longest:.1f}")
