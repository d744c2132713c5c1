"""python -m playground"""

from playground.cli import main

main()
