"""How schedulers that meet the contract are checked, from chapter 4 on.

``remote`` makes a student's scheduler look like one of our own, ``watched`` keeps books of all that it is told and
plans, ``plans`` has the rules that every plan must meet, ``spec`` decides the same by an oracle of its own, and
``walk`` drives them all over a case with the one loop of the course.
"""
