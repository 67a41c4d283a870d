"""The page that a decision on a tape-out is made on (`dpubench report`).

gather.py  ->  Findings: everything the page says, as numbers with their provenance
               (service.py, spread.py, roofs.py, frontier.py, plan.py and tapeout.py make its parts)
draw_*.py  ->  figures, as the JSON that plotly.js draws
say_*.py   ->  sections of text and tables; page.py joins them, frame.py is the HTML around them
"""
