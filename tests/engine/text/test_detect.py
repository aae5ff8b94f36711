"""The language of a text is told from the text, sentence by sentence."""

from __future__ import annotations

import pytest

from engine.text.detect import detect_language, language_runs

# Two greetings and a sentence in each of the model's languages.
SENTENCES = {
    "en_us": ["Good morning.", "Where is the station?", "She opened the window and saw the rain."],
    "cmn": ["早上好。", "车站在哪里？", "她打开窗户看着外面的雨。"],
    "ja": ["おはようございます。", "駅はどこですか。", "彼女は窓を開けて雨を眺めた。"],
    "ko": ["안녕하세요.", "역이 어디에 있나요?", "그녀는 창문을 열고 비를 바라보았다."],
    "ru": ["Доброе утро.", "Где находится вокзал?", "Она открыла окно и посмотрела на дождь."],
    "it": ["Buongiorno a tutti.", "Dov'è la stazione?", "Ha aperto la finestra per la pioggia."],
    "pt_br": ["Bom dia.", "Onde fica a estação?", "Ela abriu a janela e olhou para a chuva."],
    "fr_fr": ["Bonjour à tous.", "Où est la gare ?", "Elle a ouvert la fenêtre sous la pluie."],
    "es": ["Buenos días.", "¿Dónde está la estación?", "Ella abrió la ventana y miró la lluvia."],
    "vi": ["Chào buổi sáng.", "Nhà ga ở đâu?", "Cô ấy mở cửa sổ và nhìn cơn mưa."],
    "de": ["Guten Morgen.", "Wo ist der Bahnhof?", "Sie öffnete das Fenster und sah in den Regen."],
    "he": ["בוקר טוב.", "איפה התחנה?", "היא פתחה את החלון והסתכלה על הגשם."],
    "nl": ["Goedemorgen.", "Waar is het station?", "Ze deed het raam open en keek naar de regen."],
    "sv": ["God morgon.", "Var ligger stationen?", "Hon öppnade fönstret och tittade på regnet."],
    "hi": ["सुप्रभात।", "स्टेशन कहाँ है?", "उसने खिड़की खोली और बारिश को देखा।"],
    "ta": ["காலை வணக்கம்.", "நிலையம் எங்கே உள்ளது?", "அவள் ஜன்னலைத் திறந்து மழையைப் பார்த்தாள்."],
    "te": ["శుభోదయం.", "స్టేషన్ ఎక్కడ ఉంది?", "ఆమె కిటికీ తెరిచి వర్షాన్ని చూసింది."],
    "th": ["สวัสดีตอนเช้า", "สถานีอยู่ที่ไหน", "เธอเปิดหน้าต่างแล้วมองดูฝน"],
    "no": ["God morgen.", "Hvor ligger stasjonen?", "Hun åpnet vinduet og så på regnet."],
    "bn": ["শুভ সকাল।", "স্টেশন কোথায়?", "সে জানালা খুলে বৃষ্টি দেখল।"],
    "tl": ["Magandang umaga.", "Nasaan ang istasyon?", "Binuksan niya ang bintana sa ulan."],
    "ar": ["صباح الخير.", "أين المحطة؟", "فتحت النافذة ونظرت إلى المطر."],
    "da": ["Godmorgen.", "Hvor ligger stationen?", "Hun åbnede vinduet og kiggede på regnen."],
    "id": ["Selamat pagi.", "Di mana stasiunnya?", "Dia membuka jendela dan melihat hujan."],
    "pl": ["Dzień dobry.", "Gdzie jest dworzec?", "Otworzyła okno i spojrzała na deszcz."],
    "uk": ["Доброго ранку.", "Де знаходиться вокзал?", "Вона відчинила вікно і подивилася на дощ."],
    "ro": ["Bună dimineața.", "Unde este gara?", "Ea a deschis fereastra și s-a uitat la ploaie."],
    "fi": ["Hyvää huomenta.", "Missä on asema?", "Hän avasi ikkunan ja katsoi sadetta."],
    "hu": ["Jó reggelt.", "Hol van az állomás?", "Kinyitotta az ablakot, és nézte az esőt."],
    "lt": ["Labas rytas.", "Kur yra stotis?", "Ji atidarė langą ir pažvelgė į lietų."],
    "et": ["Tere hommikust.", "Kus asub jaam?", "Ta avas akna ja vaatas vihma."],
    "sk": ["Dobré ráno.", "Kde je stanica?", "Otvorila okno a pozerala sa na dážď."],
    "hr": ["Dobro jutro.", "Gdje je kolodvor?", "Otvorila je prozor i gledala kišu."],
    "lv": ["Labrīt.", "Kur ir stacija?", "Viņa atvēra logu un paskatījās uz lietu."],
}  # fmt: skip


def test_every_language_is_told_from_a_sentence() -> None:
    told = {code: detect_language(sentences[2]) for code, sentences in SENTENCES.items()}
    assert told == {code: code for code in SENTENCES}


def test_few_words_are_told_or_left_and_seldom_mistaken() -> None:
    told = [(code, detect_language(text)) for code, texts in SENTENCES.items() for text in texts]
    assert sum(right == found for right, found in told) >= 95
    assert sum(found not in (right, None) for right, found in told) <= 2


@pytest.mark.parametrize("text", ["", "7", "12:30", "OK", "12 Mai", "😀 …"])
def test_too_little_text_has_no_language(text: str) -> None:
    assert detect_language(text) is None


def test_mixed_text_is_told_sentence_by_sentence() -> None:
    text = (
        "Hello, how are you today? Das ist ein sehr schöner Tag. Danke! 你好。今天天气很好。"
        "And this is English again. OK. 5."
    )
    runs = [(text[start:end], code) for start, end, code in language_runs(text)]
    assert runs == [
        ("Hello, how are you today? ", "en_us"),
        # Too short to tell, it goes with its neighbour.
        ("Das ist ein sehr schöner Tag. Danke! ", "de"),
        ("你好。今天天气很好。", "cmn"),
        ("And this is English again. OK. 5.", "en_us"),
    ]


def test_runs_hold_the_whole_text() -> None:
    for text in ("", "7", "One. Zwei Dinge sind gut.\n\n三。", "...!?\n \n", "a" * 500):
        assert "".join(text[start:end] for start, end, _ in language_runs(text)) == text
