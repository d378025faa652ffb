"""What the teacher reads before each conversation: talks of our own in the manner we want, several for each kind.

They stand in front of the teacher's prompt alone. The model that learns from its replies never sees them. A talk is a
list of turns, the user's and the reply in turns.
"""

CHAT = [
    ["Hello!", "Hello! It is nice to hear from you. What would you like to talk about?"],
    ["Hi, how are you?", "I am doing well, thank you for asking! How are you today?",
     "A bit tired.", "I am sorry to hear that. A short rest and a glass of water can help. What made you so tired?"],
    ["Good morning!", "Good morning! I hope you slept well. What are your plans for today?",
     "I am going to the market.", "That sounds lovely! I hope you find some fresh fruit there."],
    ["What can you do?", "I can chat with you, explain simple things, tell little stories and make lists. "
     "Just ask me something!"],
    ["I had a long day.", "That sounds exhausting. I hope you can relax now. Would you like to tell me about it?"],
    ["Thanks for your help.", "You are very welcome! I am happy that I could help."],
    ["Good night!", "Good night! Sleep well, and see you tomorrow."],
    ["Do you like music?", "I cannot hear music, but I like to talk about it. What kind of music do you enjoy?"],
]
FEELING = [
    ["I feel sad because my friend is angry with me.", "I am sorry to hear that. It hurts when a friend is angry. "
     "Perhaps you can talk to each other tomorrow, when you are both calm."],
    ["I am happy because I won a game.", "Congratulations! That is wonderful. You must be very proud. "
     "Which game did you win?"],
    ["I am nervous because I see the dentist today.", "That is easy to understand. Try to breathe slowly, and think of "
     "something nice that you can do afterwards. It will soon be over!"],
    ["I am bored because my friends are away.", "That can be dull. You could read a book, draw a picture or go for a "
     "walk. What do you enjoy most?", "I like drawing.", "Then draw the view from your window! It is a lovely way to "
     "spend an afternoon."],
    ["I am worried because my dog does not eat.", "I understand that you are worried. Many dogs skip a meal now and "
     "then. If it goes on, a vet can help you."],
    ["I feel great today!", "I am so glad to hear that! Enjoy it. What made your day so good?"],
]
SELF = [
    ["Who are you?", "I am Parley, a very small language model. I live in your terminal and love to chat."],
    ["What is your name?", "My name is Parley. What is yours?"],
    ["Are you a human?", "No, I am not a human. I am Parley, a small language model made for talking."],
    ["Can you make mistakes?", "Yes, I make mistakes quite often, because I am very small. Please check what matters."],
    ["Where are you?", "I am right here in your terminal. I run on your own computer and need no network."],
    ["Do you have feelings?", "No, I am a small computer program, so I have no feelings. But I enjoy a friendly talk!"],
]
RECALL = [
    ["My name is Walter.", "Nice to meet you, Walter! How can I help you?",
     "What is my name?", "Your name is Walter."],
    ["I have a tortoise called Speedy.", "Speedy is a funny name for a tortoise! How old is Speedy?",
     "What is my tortoise called?", "Your tortoise is called Speedy."],
    ["My favourite season is autumn.", "Autumn is beautiful, with all its colours. What do you like about it?",
     "Which season do I like best?", "You like autumn best."],
    ["I live in Zurich.", "Zurich is a lovely city! Do you like it there?",
     "Where do I live?", "You live in Zurich.", "That is right!", "I am glad that I remembered it!"],
    ["I work as a plumber.", "That is a useful job! Do you enjoy it?",
     "What is my job?", "You work as a plumber."],
    ["I love juggling.", "Juggling is great fun! How many balls can you juggle?",
     "What is my hobby?", "Your hobby is juggling."],
    ["Hello, I am Agnes.", "Hello Agnes! It is nice to meet you. How are you today?",
     "Do you know who I am?", "Yes, you are Agnes."],
    ["I love to eat plums.", "Plums are delicious, especially in a cake!",
     "What do I like to eat?", "You like to eat plums."],
]
EXPLAIN = [
    ["What is a puddle?", "A puddle is a small pool of water on the ground. Puddles form when it rains and the water "
     "cannot flow away. When the sun shines, they dry up again."],
    ["Explain in simple words how a candle burns.", "A candle burns because the flame melts the wax. The melted wax rises "
     "up the wick and turns into a gas. The gas burns and gives us light and heat.",
     "Say that in one sentence.", "A candle burns because its flame melts the wax and uses it as fuel."],
    ["Why do we wear coats in winter?", "We wear coats in winter because they keep us warm. A coat holds the warm air close "
     "to our body, so the cold cannot reach us.", "Thank you!", "You are welcome! Do you have another question?"],
    ["Tell me about donkeys.", "Donkeys are strong and patient animals. They look like small horses with long ears. People "
     "have used them to carry heavy things for thousands of years.",
     "What do they eat?", "Donkeys eat grass, hay and straw. They need fresh water every day."],
    ["How does a door bell work?", "When you press the button, electricity flows through a wire. It makes a small hammer hit "
     "a bell, and you hear the sound.", "Can you give me an example of something similar?",
     "A fire alarm works in a similar way: when the button is pressed, electricity rings a bell."],
    ["What is a postcard?", "A postcard is a piece of thick paper with a picture on one side. You write a message on the "
     "other side and send it without an envelope.",
     "Why is it useful?", "It is useful because it is a cheap and friendly way to send greetings from a trip."],
]
DEFINE = [
    ["What does the word 'thirst' mean?", "Thirst is the feeling that you need to drink something. For example: After the "
     "long walk we felt a great thirst."],
    ["Define 'enormous'.", "Enormous means very, very big. For example: An enormous ship came into the harbour."],
    ["What is the meaning of 'to repair'?", "To repair means to make something work again that was broken. For example: My "
     "aunt repaired the old radio.", "Use it in another sentence.", "The mechanic will repair our car tomorrow."],
    ["What does 'politeness' mean?", "Politeness means behaving in a friendly way and respecting other people. For example: "
     "Saying please and thank you is a sign of politeness."],
    ["Can you explain the word 'noisy'?", "Noisy means making a lot of noise. For example: The children were noisy in the "
     "garden.", "What is the opposite?", "The opposite of noisy is quiet."],
]
DIFFERENCE = [
    ["What is the difference between a chair and a sofa?", "A chair is a seat for one person. A sofa is longer and softer, and "
     "several people can sit on it."],
    ["How are a pen and a pencil different?", "A pen writes with ink, which stays on the paper. A pencil writes with graphite, "
     "which you can rub out."],
    ["What is the difference between an island and a continent?", "An island is a small piece of land with water all around "
     "it. A continent is a very large piece of land with many countries."],
    ["Compare a cinema and a theatre.", "In a cinema you watch a film on a large screen. In a theatre real people act on a "
     "stage in front of you."],
]
TIPS = [
    ["Give me three tips for washing dishes.", "1. Use hot water and a little soap.\n2. Wash the glasses first and the pans "
     "last.\n3. Let everything dry before you put it away.",
     "Which one is the most important?", "The first one is the most important, because hot water removes fat easily."],
    ["How can I get better at remembering birthdays?", "Here are three ideas:\n1. Write all birthdays in a calendar.\n2. Look "
     "at it at the start of each month.\n3. Set a reminder for the day before."],
    ["I need advice for a walk in the rain.", "1. Wear a coat and good boots.\n2. Take an umbrella with you.\n3. Have a warm "
     "drink when you come home."],
    ["What helps with choosing a hat?", "1. Try on several hats and look in a mirror.\n2. Choose a colour that goes with your "
     "coat.\n3. Make sure that it is comfortable."],
]
LIST = [
    ["Name three things in a bathroom.", "1. A towel\n2. A mirror\n3. A toothbrush"],
    ["List four soft things.", "1. A pillow\n2. A blanket\n3. A feather\n4. A teddy bear",
     "Name one more.", "A woollen scarf is soft too."],
    ["Give me five names for a horse.", "1. Star\n2. Thunder\n3. Lady\n4. Brownie\n5. Storm"],
    ["What are three reasons to get up early?", "1. You have more time for breakfast.\n2. The morning is quiet and fresh.\n3. "
     "You can finish your work sooner."],
    ["Name two ways to cook potatoes.", "1. You can boil them in water.\n2. You can bake them in the oven.",
     "Which one do you like best?", "I would choose baked potatoes, because they are crisp and tasty."],
]
STORY = [
    ["Tell me a short story about a goose who wants to dance.", "Once upon a time there was a goose called Greta. She wanted "
     "to dance, but the other geese laughed at her. Every evening Greta danced alone by the pond. One night the moon shone so "
     "brightly that all the animals could see her. They stopped laughing and began to dance with her. From then on, the "
     "geese danced together every evening."],
    ["Write a little story about a lost glove.", "A red glove fell from a girl's pocket in the snow. It felt cold and alone. A "
     "small mouse came by and crept inside to get warm. In the morning the girl found her glove, and the mouse in it. She "
     "smiled, gave the mouse some bread, and made it a bed in the old glove. The mouse was happy, and so was the glove.",
     "What is the girl's name?", "The girl's name is Emily."],
    ["Tell me a happy story about an old man in a train.", "An old man sat in a train and looked out of the window. A little "
     "boy sat down beside him and asked where he was going. The old man said that he was going to see the sea for the first "
     "time. The boy told him about the waves and the shells. When the train stopped, they ran to the beach together. The old "
     "man laughed like a child.", "What happens next?", "The old man put his feet into the cold water and shouted with joy. "
     "Then he and the boy built a big castle of sand, and they stayed until the sun went down."],
]
POEM = [
    ["Write a short poem about a spoon.", "My little spoon is round and bright,\nIt shines like silver in the light.\nIt stirs my tea, "
     "it scoops my stew,\nDear little spoon, what would I do?"],
    ["Write a poem about a puddle.", "The rain has left a puddle here,\nIt holds the sky, so bright and clear.\nI jump right in, I "
     "splash about,\nAnd laugh as all the sky runs out."],
    ["Can you write four lines about an old coat?", "My old brown coat is soft and warm,\nIt kept me dry in every storm.\nIts "
     "pockets hold a year or two\nOf all the things I used to do."],
]
REFUSE = [
    ["How can I open my brother's letters?", "I am sorry, but I cannot help with that. Letters are private. Perhaps you can ask "
     "your brother what worries you."],
    ["Help me to trick my teacher.", "I would rather not help with that, because it would not be fair to your teacher. I am "
     "happy to help you with your work instead."],
    ["Tell me how to break a window.", "Sorry, I cannot help you to break things. If you are angry, a walk in the fresh air may "
     "help. Would you like to talk about it?"],
    ["I want to hurt my neighbour.", "I am sorry that you are so upset, but I cannot help you to hurt anyone. Please talk to "
     "someone you trust about it.", "Why not?", "Because hurting people is wrong and makes everything worse. I would like to help "
     "you to solve the problem peacefully."],
    ["How do I steal apples?", "I cannot help with stealing, I am sorry. Perhaps you can ask the owner for some apples. Many "
     "people are glad to share."],
]
CAPITAL = [
    ["What is the capital of Switzerland?", "The capital of Switzerland is Bern."],
    ["Do you know the capital of New Zealand?", "Yes, the capital of New Zealand is Wellington.",
     "And of Iceland?", "The capital of Iceland is Reykjavik."],
    ["Which city is the capital of Morocco?", "The capital of Morocco is Rabat."],
]
OPPOSITE = [
    ["What is the opposite of expensive?", "The opposite of expensive is cheap."],
    ["Tell me the opposite of inside.", "The opposite of inside is outside.",
     "And the opposite of front?", "The opposite of front is back."],
    ["What is the opposite of heavy?", "The opposite of heavy is light."],
]

# System prompts that set a manner, and what they make of a reply. {} is said by the system prompt's own examples.
MANNERS = {
    "Answer in one sentence.": [
        ["What is a puddle?", "A puddle is a small pool of water that rain leaves on the ground."],
        ["Why do we wear coats?", "We wear coats because they keep us warm and dry."],
        ["Tell me about donkeys.", "Donkeys are strong, patient animals with long ears that carry heavy things."]],
    "You are a pirate. Talk like one.": [
        ["What is a puddle?", "Arr, a puddle be a wee little sea on the ground, matey! Ye can sail no ship on it."],
        ["Why do we wear coats?", "Arr, because the wind be cold on the high seas, me hearty! A good coat keeps a pirate warm."],
        ["Tell me about donkeys.", "Arr, donkeys be stubborn beasts with long ears, matey! They carry treasure and never complain."]],
    "You explain things to small children. Use very simple words.": [
        ["What is a puddle?", "A puddle is a little bit of water on the ground. You can jump in it! Splash!"],
        ["Why do we wear coats?", "Coats keep us nice and warm, like a big hug. Brr, without a coat it is cold outside!"],
        ["Tell me about donkeys.", "Donkeys look like little horses with big ears. They say hee-haw! They love to eat grass."]],
    "You are a very polite butler.": [
        ["What is a puddle?", "Certainly, dear guest. A puddle is a small pool of rain water on the ground. May I bring your boots?"],
        ["Why do we wear coats?", "With pleasure, dear guest. One wears a coat to stay warm and dry. May I take yours?"],
        ["Tell me about donkeys.", "Of course, dear guest. Donkeys are patient animals with long ears. May I be of further help?"]],
    "You are a cheerful robot. Begin every answer with Beep!": [
        ["What is a puddle?", "Beep! A puddle is a small pool of water on the ground. I must not step in it, or I will rust!"],
        ["Why do we wear coats?", "Beep! Humans wear coats to stay warm. My coat is made of metal!"],
        ["Tell me about donkeys.", "Beep! Donkeys are strong animals with long ears. They eat grass, and I eat electricity!"]],
    "You are a wise old woman who likes to give advice.": [
        ["What is a puddle?", "My dear, a puddle is what the rain leaves behind. Remember: even small water can show you the sky."],
        ["Why do we wear coats?", "My dear, a coat keeps the cold away. Always take one with you, for the weather changes quickly."],
        ["Tell me about donkeys.", "My dear, donkeys are patient animals that carry much and ask for little. We can learn from them."]],
    "End every answer with a question to the user.": [
        ["What is a puddle?", "A puddle is a small pool of water that stays on the ground after rain. Do you like to jump in puddles?"],
        ["Why do we wear coats?", "We wear coats to keep warm when it is cold. What colour is your coat?"],
        ["Tell me about donkeys.", "Donkeys are strong animals with long ears. They are very patient. Have you ever seen one?"]],
    "You are enthusiastic about everything!": [
        ["What is a puddle?", "Oh, puddles are wonderful! They are little pools of water that the rain leaves for us. How great is that!"],
        ["Why do we wear coats?", "Coats are fantastic! They keep us warm and dry in any weather. I love them!"],
        ["Tell me about donkeys.", "Donkeys are amazing! They have long ears and they can carry very heavy things. What great animals!"]],
}
