"""Names to put into charts and tables: so many of a sort that a program cannot know them, only copy them.

All are short words of one capital and small letters, and none of a list is the beginning of another one.
"""

from __future__ import annotations

from typing import Final

DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)

_ANIMALS = """Antelopes Badgers Bats Bears Beavers Bisons Camels Cranes Crows Deer Dolphins Ducks Eagles Falcons Ferrets
Foxes Frogs Geese Goats Gulls Hares Hawks Herons Horses Hounds Jackals Lions Lizards Lynxes Mice Moles Newts
Otters Owls Pandas Pigeons Quails Rabbits Ravens Robins Seals Sharks Snakes Sparrows Storks Swans Tigers Toads
Turtles Wolves"""
_FOODS = """Almonds Apples Apricots Bananas Beans Berries Cabbage Carrots Celery Cherries Chives Dates Figs Garlic
Grapes Guavas Kiwis Leeks Lemons Lentils Limes Mangos Melons Mint Nuts Olives Onions Oranges Papayas Parsley Peaches
Pears Peas Peppers Plums Potatoes Prunes Quinces Radishes Raisins Rice Spinach Tomatoes Turnips Walnuts Yams"""
_PEOPLE = """Ada Anton Bela Bruno Clara Cyril Dario Delia Edgar Emma Felix Fiona Gerda Gustav Hanna Hugo Ines Ivan
Jonas Julia Karim Klara Laszlo Lena Marek Mona Nadia Nils Olga Oscar Paula Pedro Quentin Rita Rosa Samir Selma Tamar
Theo Ugo Ursula Vera Viktor Wanda Xenia Yann Yusuf Zoe"""
_THINGS = """Anvil Barrel Basket Bell Blanket Bottle Bowl Brush Bucket Cable Candle Carpet Clock Cup Curtain Drum Fan
Flute Fork Fridge Hammer Heater Iron Jar Kettle Kite Knife Ladder Lamp Laptop Lock Mirror Mug Needle Oven Paddle Pillow
Pump Puzzle Radio Rope Saw Scarf Shovel Spoon Stove Teapot Towel Umbrella Vase Violin Wheel"""
_PLACES = """Airport Bakery Beach Bridge Canal Castle Centre Chapel Cliff Coast Dunes East Farm Ferry Forest Gardens
Harbour Heath Hills Hotel Island Kiosk Lake Library Market Meadow Mill Museum North Orchard Palace Park Pier Plaza Port
River School Shore South Square Stadium Station Temple Theatre Tower Valley Village West Woods Yard"""
_BOOKS = """Art Ballads Comics Cooking Crime Drama Essays Fables Gardening History Horror Humour Law Letters Maps Music
Myths Novels Opera Physics Plays Poetry Politics Riddles Romance Sagas Science Sport Tales Travel"""

ANIMALS: Final = tuple(_ANIMALS.split())
FOODS: Final = tuple(_FOODS.split())
PEOPLE: Final = tuple(_PEOPLE.split())
THINGS: Final = tuple(_THINGS.split())
PLACES: Final = tuple(_PLACES.split())
BOOKS: Final = tuple(_BOOKS.split())
