package main

// words are the texts around a page, in its language.
type words struct {
	Skip, Menu, Pages, Search, SearchAll, Results, Theme                string
	Before, After, Source, OnThisPage, Console, Copy, Copied, ToSection string
	// Contents and the others are pages of the program without a file; the lists of pages
	// are added to the first two.
	Contents, Missing, API string
	// Other is the other language, in its own words.
	Other string
}

var wordsOf = map[language]words{
	english: {
		Skip: "Skip to the text", Menu: "Pages", Pages: "Documentation", Search: "Search", SearchAll: "Search the documentation", Results: "Results", Theme: "Light or dark",
		Before: "Before", After: "Next", Source: "Source of this page", OnThisPage: "On this page", Console: "Console", Copy: "Copy", Copied: "Copied", ToSection: "Link to this section",
		Contents: "# Documentation\n\nThese pages are part of the gateway: they are those of its version, and need no network. [All pages](" + repository + "/blob/main/" + index + ") are in the repository.\n",
		Missing:  "# No such page\n\nThere is no page at this address. If you came from a link of the gateway to its console or its API: they are at the address of the management API, which may be another one (`server.management-listen`). These pages are here:\n",
		API:      "[API](/docs/api): every operation, to read and to try", Other: "中文",
	},
	chinese: {
		Skip: "跳到正文", Menu: "页面", Pages: "文档", Search: "搜索", SearchAll: "搜索文档", Results: "结果", Theme: "浅色或深色",
		Before: "上一页", After: "下一页", Source: "本页源文件", OnThisPage: "本页内容", Console: "控制台", Copy: "复制", Copied: "已复制", ToSection: "本节的链接",
		Contents: "# 文档\n\n这些页面是网关的一部分：与网关的版本一致，不需要网络。[全部文档（英文）](" + repository + "/blob/main/" + index + ")在仓库中。\n",
		Missing:  "# 没有这个页面\n\n此地址没有页面。如果你是通过网关中指向控制台或 API 的链接来到这里：它们在管理 API 的地址上，那可能是另一个地址（`server.management-listen`）。这里有以下页面：\n",
		API:      "[API](/docs/api)：全部操作，可阅读、可试用", Other: "English",
	},
}
