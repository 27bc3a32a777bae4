"""`muster spark report`: the jobs' tables as one HTML page to look at. No Spark, no Java, no network.

    reading.py      tables as batches of Arrow: only the days, columns and groups that are asked for
    totals.py       what is kept of them in bounded memory: totals by key, and the foremost rows
    survey.py       a first reading: totals per group, the span of time, and which groups the page shows in detail
    series.py, rebalancing.py, membership.py, dead_letters.py    a second one: the figures of each chart
    report.py       all figures of a page, as one document
    page.py         that document as HTML; `assets/` has the style, and the scripts that draw

Figures are computed here and drawn in the browser, by plotly.js and plain HTML, so that the choice of groups and
the zoom work on the page itself. Whatever a client chose (group ids, client ids, reasons) is text to all of it,
never markup.
"""
