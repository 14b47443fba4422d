"""A module that no warm parent can be allowed to import."""

import threading
import time

threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
