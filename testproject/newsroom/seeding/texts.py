"""The phrases that the seeded stories are made of; the town of Fairhaven is invented."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Beat:
    """A section, and what its headlines and sentences are put together from."""

    name: str
    description: str
    subjects: tuple[str, ...]
    events: tuple[str, ...]
    sources: tuple[str, ...]
    tags: tuple[str, ...]


BEATS = (
    Beat(
        name="Local",
        description="Streets, schools and neighbours in Fairhaven",
        subjects=(
            "Harbour bridge",
            "Market square",
            "Old fire station",
            "Northside library",
            "Tram line four",
            "Riverside school",
            "Allotment gardens",
            "Central station",
        ),
        events=(
            "closes for repairs until autumn",
            "reopens after two years of work",
            "gets a new roof from donations",
            "to be rebuilt with help of residents",
            "draws record number of visitors",
            "waits for money from the county",
            "stays open late on trial",
        ),
        sources=("the town's building office", "a spokesman for the residents", "the mayor"),
        tags=("town", "building", "transport", "schools"),
    ),
    Beat(
        name="Politics",
        description="Council, county and elections",
        subjects=(
            "Town council",
            "Budget committee",
            "County assembly",
            "Planning board",
            "Youth parliament",
            "Finance officer",
            "Opposition group",
            "Election board",
        ),
        events=(
            "agrees on cycling plan after long night",
            "postpones vote on parking fees",
            "asks for open figures on harbour costs",
            "rejects sale of public land",
            "proposes cheaper bus passes",
            "promises answer on housing by spring",
            "splits over swimming pool",
        ),
        sources=("the council's speaker", "members of the committee", "the county clerk"),
        tags=("council", "budget", "elections", "housing"),
    ),
    Beat(
        name="Business",
        description="Work, trade and money in the region",
        subjects=(
            "Fairhaven shipyard",
            "Island ferry company",
            "Family bakery",
            "Wind farm operator",
            "Fish cooperative",
            "Printing works",
            "Toolmakers' guild",
            "Savings bank",
        ),
        events=(
            "takes on forty apprentices",
            "orders its first electric vessel",
            "reports best quarter in a decade",
            "moves to the northern docks",
            "raises wages after talks",
            "looks for a successor",
            "cuts packaging by half",
        ),
        sources=("the chamber of commerce", "the works council", "the company's manager"),
        tags=("jobs", "harbour", "energy", "trade"),
    ),
    Beat(
        name="Science",
        description="Research at the institute and on the coast",
        subjects=(
            "Marine institute",
            "Bird observatory",
            "Weather station",
            "University laboratory",
            "Seal survey",
            "Tide researchers",
            "Soil chemists",
            "Student astronomers",
        ),
        events=(
            "finds eelgrass recovering in the bay",
            "counts more terns than ever before",
            "measures warmest spring on record",
            "maps the seabed with cheap sensors",
            "opens its data to schools",
            "explains the strange lights of March",
            "tests a filter for microplastics",
        ),
        sources=("the study's authors", "the institute's director", "independent researchers"),
        tags=("climate", "sea", "research", "nature"),
    ),
    Beat(
        name="Culture",
        description="Stage, music, books and film",
        subjects=(
            "City theatre",
            "Harbour cinema",
            "Chamber choir",
            "Museum of navigation",
            "Street music festival",
            "Poetry workshop",
            "Youth orchestra",
            "Lighthouse gallery",
        ),
        events=(
            "opens the season with a comedy",
            "shows forgotten films of the coast",
            "invites the whole town to sing",
            "celebrates its fiftieth year",
            "tours the islands this summer",
            "makes entry free on Thursdays",
            "finds a home in the warehouse",
        ),
        sources=("the director", "the festival's organisers", "visitors on opening night"),
        tags=("stage", "music", "film", "books"),
    ),
    Beat(
        name="Sport",
        description="Clubs, races and results",
        subjects=(
            "Fairhaven rowers",
            "Harbour half marathon",
            "Women's handball team",
            "Chess club",
            "Sailing school",
            "Northside footballers",
            "Cycling juniors",
            "Swimming club",
        ),
        events=(
            "wins the derby in the last minute",
            "starts with a new course",
            "climbs to the top of the table",
            "loses narrowly in the final",
            "brings home three medals",
            "trains in the rain for the regatta",
            "celebrates promotion with its fans",
        ),
        sources=("the coach", "the club's chair", "supporters at the quay"),
        tags=("club", "race", "youth", "league"),
    ),
)

OPENINGS = (
    "It is official since {day}: {subject} {event}.",
    "What many had expected became certain on {day}: {subject} {event}.",
    "Few stories have moved Fairhaven this year like this one: {subject} {event}.",
)
MIDDLES = (
    "According to {source}, the preparations took {months} months and cost less than planned.",
    '{Source} spoke of "a good day for everybody who has been patient".',
    "{People} people took part in the survey that came before, and most of them were in favour.",
    "Doubts remain: {source} warned that the figures would have to be checked again.",
    "The next step is due in {months} months, as {source} confirmed to this newspaper.",
    "Nobody had counted on so much interest; more than {people} people signed up within a week.",
)
ENDINGS = (
    "Whoever wants to know more can come to the open evening next {day}.",
    "This newspaper will report on how it goes on.",
    "Questions are answered at the town's service desk every {day}.",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
COMMENTS = (
    "At last some good news.",
    "I was there, and it was exactly like that.",
    "Who is going to pay for this?",
    "Thank you for reporting on it so calmly.",
    "The photograph shows the other side of the river, doesn't it?",
    "My grandmother would have loved to read this.",
    "Please follow this up next month.",
    "I don't believe a word of it.",
)
BYLINES = (
    "Ada Brook",
    "Ben Quay",
    "Clara Moor",
    "Dennis Fell",
    "Edith Strand",
    "Farid Tarn",
    "Greta Holm",
)
