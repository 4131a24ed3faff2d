"""The kernel that the tests of this folder share."""

from kernels import kernel as kernel
from kernels import kernel_process as kernel_process
