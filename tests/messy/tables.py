"""Small tables as programs write them, with what is confirmed and what is stored of them."""

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

AGE = {"name": "age", "type": "number", "lower": 0, "upper": 120, "missing": True}
SEX = {"name": "sex", "type": "binary", "categories": ["f", "m"], "missing": True}
SEEN = {"name": "seen", "type": "date", "lower": "2019-01-01", "upper": "2021-12-31"}
TRUE = {"name": "true", "type": "binary", "categories": ["false", "true"]}
SUM = {"name": "sum", "type": "number", "lower": -2000, "upper": 2_000_000}
TOWN = {"name": "town", "type": "category", "categories": ["Köln", "new york", "x"]}
TITLE = "Kliniken 2020;;\nStand: 1.2.2021;;\n;;\n"
Columns = list[dict[str, Any]]
Stored = dict[str, list[float]]
# content, columns, what is confirmed, values that are stored
TABLES: dict[str, tuple[str, Columns, dict[str, Any], Stored]] = {
    "R, row names and NA": (
        '"","age","sex"\n"1",34,"f"\n"2",NA,"m"\n', [AGE, SEX], {"missing": ["NA"]},
        {"age": [34.0, -1.0], "sex": [0, 1]},
    ),
    "SAS, point and DATE9": (
        "age,seen\n34,31JAN2020\n.,01FEB2020:13:05:00\n", [AGE, SEEN], {"missing": ["."]},
        {"age": [34.0, -1.0], "seen": [395.0, 396.0]},
    ),
    "Stata, days": ("seen,sex\n31jan2020,f\n1feb2020,\n", [SEEN, SEX], {},
        {"seen": [395.0, 396.0], "sex": [0, 2]}),
    "Oracle, days": ('"SEEN","seen"\n"x","31-JAN-2020"\n"x","1-feb-2020"\n', [SEEN], {},
        {"seen": [395.0, 396.0]}),
    "spreadsheet, United States": (
        "seen,age\n1/31/2020 1:05:00 PM,34\n2/1/2020,1\n", [SEEN, AGE], {},
        {"seen": [395.0, 396.0], "age": [34.0, 1.0]},
    ),
    "spreadsheet, British": (
        "seen;age\n31/01/2020;34\n01/02/2020 13:05;1\n", [SEEN, AGE], {}, {"seen": [395.0, 396.0]},
    ),
    "days in two ways": (
        "seen;age\n02-01-2020;34\n", [SEEN, AGE], {"dates": "mdy"}, {"seen": [396.0]},
    ),
    "a form's times and names": (
        'seen,"sex,\nas it was"\n2020/01/31 1:05:00 PM GMT+2,f\n2020/02/01 11:05:00 AM GMT+2,m\n',
        [SEEN, {**SEX, "name": "sex, as it was"}], {}, {"seen": [395.0, 396.0]},
    ),
    "a year first": ("seen\n2020/1/31\n20200201\n", [SEEN], {}, {"seen": [395.0, 396.0]}),
    "months in words": (
        'seen;age\n"January 31, 2020";1\n1 February 2020;2\n', [SEEN, AGE], {},
        {"seen": [395.0, 396.0]},
    ),
    "words as text": (
        'age,sex\n="34",="f"\n1,m\n', [AGE, SEX], {}, {"age": [34.0, 1.0], "sex": [0, 1]},
    ),
    "SQL dump": (
        "age\tsex\tseen\n34\tf\t2020-01-31 00:00:00\n\\N\tm\t2020-02-01 23:59:59.5+02\n",
        [AGE, SEX, SEEN], {"missing": ["\\N"]},
        {"age": [34.0, -1.0], "sex": [0, 1], "seen": [395.0, 396.0]},
    ),
    "office, titles padded": (
        TITLE + "age;seen;sex\n34;31.01.2020;f\n1;1.2.2020;m\n", [AGE, SEEN, SEX], {},
        {"age": [34.0, 1.0], "seen": [395.0, 396.0], "sex": [0, 1]},
    ),
    "line ends of two machines": ("age,sex\r\n34,f\n1,m\r\n5,f\n", [AGE, SEX], {},
        {"age": [34.0, 1.0, 5.0], "sex": [0, 1, 0]}),
    "a separator after each row": ("age;sex\n34;f;\n56;m;\n", [AGE, SEX], {},
        {"age": [34.0, 56.0], "sex": [0, 1]}),
    "truth in capitals": ("true\nTRUE\nFalse\ntrue\n", [TRUE], {}, {"true": [1, 0, 1]}),
    "SQL copy, end of data": (
        "age\tsex\n34\tf\n\\N\tm\n\\.\n", [AGE, SEX], {"missing": ["\\N"]}, {"age": [34.0, -1.0]},
    ),
    "ledger, minus at the end": (
        "sum;age\n1.234,50-;34\n800,00;1\n2-;5\n", [SUM, AGE], {}, {"sum": [-1234.5, 800.0, -2.0]},
    ),
    "India": (
        'sum,age\n"12,34,567.50",34\n"1,00,000.00",1\n', [SUM, AGE], {},
        {"sum": [1234567.5, 100000.0]},
    ),
    "SAS, kinds of no value": (
        "age,sex\n34,f\n.A,m\n.,f\n._,m\n", [AGE, SEX], {"missing": [".", ".A", "._"]},
        {"age": [34.0, -1.0, -1.0, -1.0]},
    ),
    "accents of another machine": (
        "town;age\nKo\u0308ln;34\nnew\u00a0york;1\nnew york ;2\n", [TOWN, AGE], {},
        {"town": [0, 1, 1]},
    ),
    "Eurostat": (
        "freq,geo\\TIME_PERIOD\t2019 \t2020 \nA,DE\t12.5 \t13.1 \nA,FR\t: \t9.0 \n",
        [{**AGE, "name": "2019"}, {**AGE, "name": "2020"}], {"missing": [":"]},
        {"2019": [12.5, -1.0], "2020": [13.1, 9.0]},
    ),
    "errors of a spreadsheet": (
        "age\n34\n#DIV/0!\n#N/A\n", [AGE], {"missing": ["#DIV/0!", "#N/A"]},
        {"age": [34.0, -1.0, -1.0]},
    ),
    "SQL Server": (
        "\ufeffage,sex\r\n34,NULL\r\nNULL,m\r\n", [AGE, SEX], {"missing": ["NULL"]},
        {"age": [34.0, -1.0], "sex": [2, 1]},
    ),
    "SPSS, blanks": ("age\tsex\n34\tf\n \tm\n \t \n", [AGE, SEX], {},
        {"age": [34.0, -1.0], "sex": [0, 1]}),
    "Stata, labels": (
        "age,sex,town\n34,f,new york\n1,m,.\n", [AGE, SEX, {**TOWN, "missing": True}],
        {"missing": ["."]}, {"sex": [0, 1], "town": [1, 3]},
    ),
    "sep line in quotes": ('"SEP=;"\r\nage;sex\r\n34,5;f\r\n1;m\r\n', [AGE, SEX], {},
        {"age": [34.5, 1.0], "sex": [0, 1]}),
    "trailing empty columns": ("age;sex;;;\n34;f;;;\n1;m;;;\n;;;;\n", [AGE, SEX], {},
        {"age": [34.0, 1.0], "sex": [0, 1]}),
    "totals left out": (
        "id;age;sex\n1;34;f\n2;1;m\nTotal;35;\n\n", [AGE, SEX], {"skip_last_lines": 1},
        {"age": [34.0, 1.0], "sex": [0, 1]},
    ),
    "a row of that name": ("shop,age\nShell,34\nTotal,1\n", [AGE], {"skip_last_lines": 0},
        {"age": [34.0, 1.0]}),
    "whole numbers, French": (
        "sum;age\n1\u202f234;34\n12\u00a0345;1\n7;5\n", [SUM, AGE], {},
        {"sum": [1234.0, 12345.0, 7.0]},
    ),
    "whole numbers, Swiss": ("sum,age\n1'234,34\n7,1\n", [SUM, AGE], {}, {"sum": [1234.0, 7.0]}),
    "R, row names without quotes": (
        "age,sex\n1,34,f\n2,1,m\n", [AGE, SEX], {"row_names": True},
        {"age": [34.0, 1.0], "sex": [0, 1]},
    ),
    "R, write.csv2": (
        '"";"age";"sex"\n"1";34,5;"f"\n"2";NA;"m"\n', [AGE, SEX], {"missing": ["NA"]},
        {"age": [34.5, -1.0], "sex": [0, 1]},
    ),
    "Eurostat, flags of no value": (
        "geo\\TIME\t2019\t2020\nDE\t12.3\t1.0 \nFR\t: c\t: \n",
        [{**AGE, "name": "2019"}, {**AGE, "name": "2020"}], {"missing": [":", ": c"]},
        {"2019": [12.3, -1.0], "2020": [1.0, -1.0]},
    ),
    "office, titles and notes": (
        "Tabelle: 12411-0001\nBev\u00f6lkerung;;\n;;\nage;sex;n\n34;f;1\n1;m;2\n__________\n"
        '"Quelle: ein Amt"\nStand: 01.02.2024 / 10:00:00\n', [AGE, SEX], {"skip_last_lines": 3},
        {"age": [34.0, 1.0], "sex": [0, 1]},
    ),
    "PC-Axis": (
        '"Persons by age and sex"\n\n"age","sex","n 2020"\n"34","f",12\n"1","m",".."\n',
        [AGE, SEX, {**AGE, "name": "n 2020"}], {"missing": [".."]},
        {"age": [34.0, 1.0], "n 2020": [12.0, -1.0]},
    ),
    "comments above": (
        "# made 2024, by a tool\n# units: years, none\nage,sex\n34,f\n1,m\n", [AGE, SEX], {},
        {"age": [34.0, 1.0], "sex": [0, 1]},
    ),
    "LimeSurvey": (
        '"id","age[1]","Are you\r\nwell?","sex"\r\n"1","34","Y","f"\r\n"2","","N","m"\r\n',
        [{**AGE, "name": "age[1]"}, SEX], {}, {"age[1]": [34.0, -1.0], "sex": [0, 1]},
    ),
    "REDCap": (
        "record_id,redcap_event_name,age,sex,ill___1\n1,first_arm_1,34,f,1\n1,second_arm_1,,,0\n",
        [AGE, SEX], {}, {"age": [34.0, -1.0], "sex": [0, 2]},
    ),
    "text for the web": ("| age | sex |\n|-----|:---:|\n| 34 | f |\n| 1 | m |\n", [AGE, SEX], {},
        {"age": [34.0, 1.0], "sex": [0, 1]}),
}  # fmt: skip

DAYS = pa.array([date(2020, 1, 31), None])
SEXES = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), ["f", "m"])
PARQUET: dict[str, tuple[pa.Table, Columns, Stored]] = {
    "pandas, index and nulls": (
        pa.table({"age": pa.array([34, None]), "__index_level_0__": [5, 7]}), [AGE],
        {"age": [34.0, -1.0]},
    ),
    "pandas, categories": (
        pa.table({"age": pa.array([34, 1, 34]).dictionary_encode(), "sex": SEXES}), [AGE, SEX],
        {"age": [34.0, 1.0, 34.0], "sex": [0, 1, 2]},
    ),
    "decimals": (
        pa.table({"sum": pa.array([Decimal("1.10"), Decimal("-3.25")], pa.decimal128(10, 2))}),
        [SUM], {"sum": [1.1, -3.25]},
    ),
    "times with zones": (
        pa.table({"seen": pa.array([1580509800, 1580513400], pa.timestamp("s", "Europe/Berlin"))}),
        [SEEN], {"seen": [395.0, 396.0]},
    ),
    "days": (pa.table({"seen": DAYS}), [{**SEEN, "missing": True}], {"seen": [395.0, -1.0]}),
    "nested columns": (
        pa.table({"age": [34, 1], "tags": [["a"], []], "more": [{"x": 1}, {"x": 2}]}), [AGE],
        {"age": [34.0, 1.0]},
    ),
    "large and small types": (
        pa.table({"age": pa.array([34, 1], pa.uint8()), "sum": pa.array([2**53 + 1, 5], pa.int64()),
                  "sex": pa.array(["f", "m"], pa.large_string())}),
        [AGE, SUM, SEX], {"age": [34.0, 1.0], "sum": [2e6, 5.0], "sex": [0, 1]},
    ),
}  # fmt: skip
