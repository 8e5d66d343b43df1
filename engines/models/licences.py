"""What published weights may be used for, in the words of a list: as far as it was seen, for model cards decide."""

from typing import Final

MAR: Final = "MIT"
HARMON: Final = "S-Lab License 1.0: for research, not for commercial use"
XAR: Final = "no licence file: all rights are its authors', so ask them"
OPENPANGU: Final = "OPENPANGU MODEL LICENSE 1.0, not for use within the European Union"
