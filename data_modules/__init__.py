"""Data modules: importing this package registers their short names for the command line."""

from data_modules.base import DatasetInfo as DatasetInfo
from data_modules.base import TaskDataModule as TaskDataModule
from data_modules.images.module import ImageDataModule as ImageDataModule
from data_modules.multi_task.modules import MultiTask as MultiTask
from data_modules.multi_task.modules import MultiText as MultiText
from data_modules.own_images.class_folders import ImageFolderData as ImageFolderData
from data_modules.own_images.class_folders import UnlabeledFolderData as UnlabeledFolderData
from data_modules.own_images.label_table import MultiLabelFolderData as MultiLabelFolderData
from data_modules.registry import *  # noqa: F403  # every registered set
from data_modules.shards.module import ShardedData as ShardedData
from data_modules.text.files import TextFiles as TextFiles
from data_modules.text.module import TextDataModule as TextDataModule
from data_modules.text.table import TextTable as TextTable
from data_modules.text.table import UnlabeledTexts as UnlabeledTexts
