"""Virtual memory for PyTorch training: an unmodified program under a byte budget that it does not fit in, with bit-identical results.

From the shell: ``tensorpager run --budget 8GiB -- python train.py``. From a program or a notebook::

    import tensorpager

    with tensorpager.enable(budget="2GiB"):
        train()
    print(tensorpager.stats()["page_outs"])

``enable()`` charges what is made from then on. What was made before is foreign: it stays where it is, and its bytes are reported.
"""

from tensorpager._guard import Guard, pin
from tensorpager._session import Session, disable, enable, mark_step, stats

__all__ = ["Guard", "Session", "disable", "enable", "mark_step", "pin", "stats"]
__version__ = "0.1.0"
